"""RabbitHub's documents: the subscribe form and its JSON twin, the record of a subscription, the self-description."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape, quoteattr

from starlette.responses import JSONResponse, Response

from db.pool import Row
from event.strict_json import StrictJsonError, loads
from hub.form import FormRefused, Mode, Verify
from hub.rabbithub.exchange import root_topic
from hub.rabbithub.resource import Place, Resource, Wish

__all__ = ["description", "error_record", "imported", "read_import", "read_wish", "record"]

_FORM = "application/x-www-form-urlencoded"
_REQUIRED = ("callback", "topic", "mode", "verify")
_CONTACT = ("app_name", "contact_name", "phone", "email", "description")
_CONTACT_CHARACTERS_MAX = 1_000
_FIELDS_MAX = 64
_ITEMS_MAX = 1_000
_CREDENTIALS_BYTES_MAX = 1_000
_HA_MODE = re.compile(r"all|none|[0-9]{1,4}")
_KINDS: Final = {"exchange": "x", "queue": "q"}
_STRING_OR_COMMA = re.compile(rb'("(?:[^"\\]|\\.?)*+(?:"|$))|,(?=\s*+[}\]])', re.DOTALL)
_PAIR: Final = ("hub.callback", "hub.topic", "hub.verify", "hub.verify_token")
_ACTIONS: Final[Mapping[str, Sequence[tuple[str, str, Sequence[str]]]]] = {
    "endpoint": (
        ("PUT", "create", ("amqp.exchange_type", "amqp.mirror")),
        ("DELETE", "delete", ()),
        ("POST", "publish", ("hub.topic",)),
        ("GET", "generate_token", ("hub.intended_use", "rabbithub.data")),
    ),
    "subscribe": (
        ("POST", "subscribe", (*_PAIR, "hub.lease_seconds", "hub.basic_auth", "hub.max_tps", "hub.ha_mode")),
        ("POST", "unsubscribe", _PAIR),
    ),
}


def read_wish(content_type: str, body: bytes) -> Wish:
    """Read a form, also one without a type, or ``{"hub": {...}}``; raises ``FormRefused``."""
    media_type = content_type.partition(";")[0].strip().lower()
    given = _json(body) if media_type == "application/json" else _form(media_type, body)
    for name in _REQUIRED:
        if not given.get(name) and not (name == "topic" and given.get(name) == ""):  # AMQP has empty binding keys
            raise FormRefused(400, f"hub.{name}", "is missing")
    mode = str(given["mode"])
    if mode not in tuple(Mode):
        raise FormRefused(400, "hub.mode", "is subscribe or unsubscribe")
    return Wish(
        Mode(mode), str(given["topic"]), str(given["callback"]), _verify(given["verify"]),
        _lease_seconds(given.get("lease_seconds")), _text(given, "verify_token"),
        (_text(given, "secret") or "").encode()[:199] or None, _details(given),
        _authorization(given.get("basic_auth")),
    )  # fmt: skip


def read_import(body: bytes) -> list[dict[str, Any]]:
    """Return the items of an exported batch; raise ``FormRefused`` 400."""
    document = _strict(body)
    items = document.get("subscriptions") if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise FormRefused(400, "subscriptions", "is missing, or is no list of objects")
    if len(items) > _ITEMS_MAX:
        raise FormRefused(413, "subscriptions", f"has more than {_ITEMS_MAX} items")
    return items


def imported(item: Mapping[str, Any]) -> tuple[Place, Wish, bool]:
    """Return an item's resource, its request and whether it is active; raise ``FormRefused`` 400."""
    for name in ("resource_type", "resource_name", "topic", "callback"):
        if not isinstance(item.get(name), str) or not (item[name] or name == "topic"):
            raise FormRefused(400, name, "is missing, or is no text")
    kind = _KINDS.get(item["resource_type"])
    if kind is None or item.get("status", "active") not in ("active", "inactive"):
        raise FormRefused(400, "", "resource_type is exchange or queue, status is active or inactive")
    contact, auth = item.get("contact") or {}, item.get("outbound_auth") or {}
    if not isinstance(contact, dict) or not isinstance(auth, dict):
        raise FormRefused(400, "", "contact and outbound_auth are objects")
    given = _clean({**contact, "ha_mode": item.get("ha_mode"), "max_tps": item.get("max_tps") or item.get("maxtps")})
    _clean({name: item.get(name) for name in ("vhost", "resource_name", "topic", "callback")})
    place = Place(str(item.get("vhost") or "/"), kind, item["resource_name"])
    wish = Wish(
        Mode.SUBSCRIBE, item["topic"], item["callback"], lease_seconds=_lease_seconds(item.get("lease_seconds")),
        details=_details(given), authorization=_authorization(auth.get("auth_config")),
    )  # fmt: skip
    return place, wish, item.get("status", "active") == "active"


def error_record(row: Row) -> dict[str, Any]:
    """Return how often deliveries of a subscription have failed since it was last subscribed."""
    return {
        "resource": row["vhost"],
        "resource_type": _type(row),
        "queue": row["name"],
        "topic": row["hub_topic"],
        "callback": row["callback"],
        "error_count": row["error_count"],
        "first_error_time_microsec": _microseconds(row["first_error_at"]),
        "last_error_time_microsec": _microseconds(row["last_error_at"]),
        "last_error_msg": row["last_error"],
        "id": row["id"],
    }


def record(row: Row) -> dict[str, Any]:
    """Return a subscription as RabbitHub's listing shows it, bindings without a lease; credentials are never in it."""
    details = json.loads(row["details"])
    return {
        "vhost": row["vhost"],
        "resource_type": _type(row),
        "resource_name": row["name"],
        "topic": row["hub_topic"],
        "callback": row["callback"],
        "lease_expiry_time_microsec": _microseconds(row["lease_until"]),
        "lease_seconds": row["lease_seconds"],
        "ha_mode": details.get("ha_mode", "none"),
        "status": "active" if row["state"] == "active" else "inactive",
        "max_tps": int(details.get("max_tps", 0)),
        "outbound_auth": {"auth_type": "basic_auth"} if row["header_names"] else {},
        "contact": {name: text[:_CONTACT_CHARACTERS_MAX] for name, text in details.get("contact", {}).items()},
        "id": row["id"],
    }


def _type(row: Row) -> str:
    return "exchange" if row["kind"] == "x" else "queue"


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1_000_000)


def description(resource: Resource, address: str, *, as_json: bool) -> Response:
    """Return the description of an exchange or a queue. JSON has the pattern of an exchange's messages, too."""
    resource_class = "amqp.exchange" if resource.place.kind == "x" else "amqp.queue"
    if as_json:
        facets = {
            facet: [{"method": m, "mode": mode, "parameters": p} for m, mode, p in actions]
            for facet, actions in _ACTIONS.items()
        }
        about = {"name": resource.place.name, "class": resource_class, "type": resource.exchange_type, "href": address}
        if resource.place.kind == "x":
            about["topic"] = f"{root_topic(resource.id)}.#"
        return JSONResponse({**about, "facets": facets})
    facets_xml = "".join(_facet(facet, actions) for facet, actions in _ACTIONS.items())
    parameters = (
        f'<parameter name="amqp.exchange_type" value={quoteattr(resource.exchange_type)}/>'
        if resource.exchange_type
        else ""
    )
    text = (
        f'<?xml version="1.0" encoding="utf-8"?>\n<application name={quoteattr(resource.place.name)} '
        f'class="{resource_class}" href={quoteattr(address)}>'
        f"<description>{escape(resource_class)} {escape(resource.place.name)}</description>"
        f"<parameters>{parameters}</parameters><facets>{facets_xml}</facets></application>\n"
    )
    return Response(text, media_type="application/xml")


def _facet(facet: str, actions: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    return f'<facet name="{facet}"><actions>{"".join(_action(*action) for action in actions)}</actions></facet>'


def _action(method: str, mode: str, parameters: Sequence[str]) -> str:
    inner = "".join(f'<parameter name="{name}" location="query" optional="true"/>' for name in parameters)
    return f'<action hub.mode="{mode}" http.method="{method}" name="{mode}">{inner}</action>'


def _form(media_type: str, body: bytes) -> dict[str, Any]:
    if media_type not in ("", _FORM):
        raise FormRefused(415, "", f"the request is a form or JSON, not {media_type[:80]}")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except (UnicodeDecodeError, ValueError):
        raise FormRefused(400, "", "the form is not valid UTF-8, or has too many fields") from None
    given: dict[str, Any] = {}
    verify = [value for name, value in pairs if name == "hub.verify"]
    for name, value in pairs:
        if name.startswith("hub.") and name != "hub.verify":
            if name[4:] in given:
                raise FormRefused(400, name, "is given more than once")
            given[name[4:]] = value
    return _clean({**given, "verify": ",".join(verify)})


def _json(body: bytes) -> dict[str, Any]:
    document = _strict(body)
    hub = document.get("hub") if isinstance(document, dict) else None
    if not isinstance(hub, dict):
        raise FormRefused(400, "hub", "is missing, or is no object")
    contact = hub.get("contact", {})
    if not isinstance(contact, dict):
        raise FormRefused(400, "hub.contact", "is no object")
    flat = {**contact, **{name: value for name, value in hub.items() if name != "contact"}}
    if isinstance(flat.get("basic_auth"), dict):
        flat["basic_auth"] = flat["basic_auth"].get("auth")
    if any(isinstance(value, dict | list) and name != "verify" for name, value in flat.items()):
        raise FormRefused(400, "hub", "holds something that is no text and no number")
    return _clean(flat)


def _strict(body: bytes) -> Any:
    try:
        return loads(_without_trailing_commas(body))
    except StrictJsonError as error:
        raise FormRefused(400, "", f"the body is no strict JSON: {error.reason}") from None


def _without_trailing_commas(body: bytes) -> bytes:
    """Return the same JSON without commas before a closing bracket: the example of RabbitHub's README has one.

    A string, also without an end, is one match, so the time is linear in the text.
    """
    return _STRING_OR_COMMA.sub(lambda match: match[1] or b"", body)


def _clean(given: dict[str, Any]) -> dict[str, Any]:
    if any(isinstance(value, str) and "\0" in value for value in given.values()):
        raise FormRefused(400, "hub", "contains a NUL character")
    return given


def _verify(given: object) -> Verify:
    """Return the first known word."""
    words = given if isinstance(given, list) else str(given).split(",")
    for word in words:
        if str(word).strip().lower() in tuple(Verify):
            return Verify(str(word).strip().lower())
    raise FormRefused(400, "hub.verify", "names neither sync nor async")


def _lease_seconds(given: object) -> int | None:
    """Return the requested lease. An empty or invalid value, or one below one, means the default."""
    text = str(given or "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 12 and int(text) else None


def _text(given: Mapping[str, Any], name: str) -> str | None:
    return str(given[name]) if given.get(name) else None


def _details(given: Mapping[str, Any]) -> dict[str, Any]:
    contact = {name: str(given[name]) for name in _CONTACT if given.get(name)}
    if contact and "app_name" not in contact:
        raise FormRefused(400, "hub.app_name", "is needed where a contact is given")
    for name, text in contact.items():
        if len(text) > _CONTACT_CHARACTERS_MAX:
            raise FormRefused(400, f"hub.{name}", f"has more than {_CONTACT_CHARACTERS_MAX} characters")
    details: dict[str, Any] = {"contact": contact} if contact else {}
    if given.get("ha_mode"):
        details["ha_mode"] = str(given["ha_mode"])
        if not _HA_MODE.fullmatch(details["ha_mode"]):
            raise FormRefused(400, "hub.ha_mode", "is all, none or a number of nodes")
    max_tps = str(given.get("max_tps") or given.get("maxtps") or "")
    if max_tps:
        if not (max_tps.isascii() and max_tps.isdigit() and len(max_tps) <= 6):
            raise FormRefused(400, "hub.max_tps", "is a whole number")
        details["max_tps"] = int(max_tps)
    return details


def _authorization(given: object) -> str | None:
    """Return ``hub.basic_auth``, which is base64 of ``user:password``, as a header's value."""
    if not given:
        return None
    try:
        pair = base64.b64decode(str(given), validate=True)
    except (binascii.Error, ValueError):
        pair = b""
    if b":" not in pair or len(pair) > _CREDENTIALS_BYTES_MAX:
        raise FormRefused(400, "hub.basic_auth", f"is base64 of user:password, {_CREDENTIALS_BYTES_MAX} bytes at most")
    return f"Basic {base64.b64encode(pair).decode()}"
