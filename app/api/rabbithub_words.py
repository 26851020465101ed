"""RabbitHub's documents: the subscribe form and its JSON twin, the record of a subscription, the self-description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape, quoteattr

from starlette.responses import JSONResponse, Response

from db.pool import Row
from event.strict_json import StrictJsonError, loads
from hub.form import Mode, Refused, Verify
from hub.rabbithub import Resource, Wish

__all__ = ["description", "read_wish", "record"]

_FORM = "application/x-www-form-urlencoded"
_REQUIRED = ("callback", "topic", "mode", "verify")
_CONTACT = ("app_name", "contact_name", "phone", "email", "description")
_FIELDS_MAX = 64
_ACTIONS: Final[Mapping[str, Sequence[tuple[str, str, Sequence[str]]]]] = {
    "endpoint": (
        ("PUT", "create", ("amqp.exchange_type",)),
        ("DELETE", "delete", ()),
        ("POST", "publish", ("hub.topic",)),
        ("GET", "generate_token", ("hub.intended_use", "rabbithub.data")),
    ),
    "subscribe": (
        ("POST", "subscribe", ("hub.callback", "hub.topic", "hub.verify", "hub.lease_seconds", "hub.verify_token")),
        ("POST", "unsubscribe", ("hub.callback", "hub.topic", "hub.verify", "hub.verify_token")),
    ),
}


def read_wish(content_type: str, body: bytes) -> Wish:
    """Read a form, also one without a type, or ``{"hub": {...}}`` (RH-19, RH-20); raises ``Refused``."""
    media_type = content_type.partition(";")[0].strip().lower()
    given = _json(body) if media_type == "application/json" else _form(media_type, body)
    for name in _REQUIRED:
        if not given.get(name):
            raise Refused(400, f"hub.{name}", "is missing")
    mode = str(given["mode"])
    if mode not in tuple(Mode):
        raise Refused(400, "hub.mode", "is subscribe or unsubscribe")
    return Wish(
        Mode(mode), str(given["topic"]), str(given["callback"]), _verify(given["verify"]),
        _lease_seconds(given.get("lease_seconds")), _text(given, "verify_token"),
        (_text(given, "secret") or "").encode()[:199] or None, _details(given),
    )  # fmt: skip


def record(row: Row) -> dict[str, Any]:
    """A subscription as RabbitHub's listing shows it; credentials are never in it (RH-46)."""
    details = json.loads(row["details"])
    return {
        "vhost": row["vhost"],
        "resource_type": "exchange" if row["kind"] == "x" else "queue",
        "resource_name": row["name"],
        "topic": row["hub_topic"],
        "callback": row["callback"],
        "lease_expiry_time_microsec": int(row["lease_until"].timestamp() * 1_000_000),
        "lease_seconds": row["lease_seconds"],
        "ha_mode": details.get("ha_mode", "none"),
        "status": "active" if row["state"] == "active" else "inactive",
        "max_tps": int(details.get("max_tps", 0)),
        "contact": details.get("contact", {}),
        "id": row["id"],
    }


def description(resource: Resource, address: str, *, as_json: bool) -> Response:
    """What can be done with an exchange or a queue (RH-13)."""
    resource_class = "amqp.exchange" if resource.place.kind == "x" else "amqp.queue"
    if as_json:
        facets = {
            facet: [{"method": m, "mode": mode, "parameters": p} for m, mode, p in actions]
            for facet, actions in _ACTIONS.items()
        }
        about = {"name": resource.place.name, "class": resource_class, "type": resource.exchange_type, "href": address}
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
        raise Refused(415, "", f"the request is a form or JSON, not {media_type[:80]}")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except (UnicodeDecodeError, ValueError):
        raise Refused(400, "", "the form is not valid UTF-8, or has too many fields") from None
    given: dict[str, Any] = {}
    verify = [value for name, value in pairs if name == "hub.verify"]
    for name, value in pairs:
        if name.startswith("hub.") and name != "hub.verify":
            if name[4:] in given:
                raise Refused(400, name, "is given more than once")
            given[name[4:]] = value
    return _clean({**given, "verify": ",".join(verify)})


def _json(body: bytes) -> dict[str, Any]:
    try:
        document = loads(body)
    except StrictJsonError as error:
        raise Refused(400, "", f"the body is no strict JSON: {error.reason}") from None
    hub = document.get("hub") if isinstance(document, dict) else None
    if not isinstance(hub, dict):
        raise Refused(400, "hub", "is missing, or is no object")
    contact = hub.get("contact", {})
    if not isinstance(contact, dict):
        raise Refused(400, "hub.contact", "is no object")
    flat = {**contact, **{name: value for name, value in hub.items() if name != "contact"}}
    if any(isinstance(value, dict | list) and name != "verify" for name, value in flat.items()):
        raise Refused(400, "hub", "holds something that is no text and no number")
    return _clean(flat)


def _clean(given: dict[str, Any]) -> dict[str, Any]:
    if any(isinstance(value, str) and "\0" in value for value in given.values()):
        raise Refused(400, "hub", "contains a NUL character")
    return given


def _verify(given: object) -> Verify:
    """The first word that is known (RH-21)."""
    words = given if isinstance(given, list) else str(given).split(",")
    for word in words:
        if str(word).strip().lower() in tuple(Verify):
            return Verify(str(word).strip().lower())
    raise Refused(400, "hub.verify", "names neither sync nor async")


def _lease_seconds(given: object) -> int | None:
    """Nothing, garbage and what is below one are the default, here only (RH-23)."""
    text = str(given or "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 12 and int(text) else None


def _text(given: Mapping[str, Any], name: str) -> str | None:
    return str(given[name]) if given.get(name) else None


def _details(given: Mapping[str, Any]) -> dict[str, Any]:
    contact = {name: str(given[name]) for name in _CONTACT if given.get(name)}
    if contact and "app_name" not in contact:
        raise Refused(400, "hub.app_name", "is needed where a contact is given")
    details: dict[str, Any] = {"contact": contact} if contact else {}
    if given.get("ha_mode"):
        details["ha_mode"] = str(given["ha_mode"])
    max_tps = str(given.get("max_tps") or given.get("maxtps") or "")
    if max_tps:
        if not (max_tps.isascii() and max_tps.isdigit() and len(max_tps) <= 6):
            raise Refused(400, "hub.max_tps", "is a whole number")
        details["max_tps"] = int(max_tps)
    return details
