"""/rabbithub/...: exchanges and queues as endpoints, in RabbitHub's own terms.

    PUT, DELETE endpoint/{x,q}/NAME            make it, delete it
    POST        endpoint/{x,q}/NAME            publish the body
    GET         endpoint/..., subscribe/...    its description, as XML or JSON
    GET         ...?hub.mode=generate_token    a token, by which it may be subscribed elsewhere
    GET         ...?hub.challenge=...          the answer to another hub's verification
    POST        subscribe/{x,q}/NAME           subscribe, unsubscribe: a form, or JSON
    DELETE      subscribe/{x,q}/NAME           delete a subscription
    GET         subscriptions[/{x,q}/NAME]     all of them, or one
    POST        subscriptions                  import subscriptions exported elsewhere
    GET         subscriptions/errors           subscriptions with failing deliveries

A virtual host may stand before each of them. Segments of the path are percent-decoded, so a name may hold a
slash. Answers are plain text where they are no documents.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

import structlog
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from app.web.api.rabbithub.path import parts_of
from app.web.api.rabbithub.words import description, error_record, imported, read_import, read_wish, record
from app.web.api.route.actor import actor_of
from app.web.api.route.answers import Share, row_bytes
from app.web.api.route.context import context_of
from app.web.authentication import grant_of, key_id_of
from app.web.header_text import header_text
from app.web.scopes import OPEN, Need, default_need, needs_by
from db.errors import DatabaseError
from db.pool import Row
from event.identity import format_event_id
from hub.acceptance import Hub, outcome
from hub.form import FormRefused, Mode, Verify
from hub.rabbithub.batch_import import import_subscription
from hub.rabbithub.binding import bind, bind_queue_of_key, bound_queue, unbind
from hub.rabbithub.exchange import RoutingError, parse_headers
from hub.rabbithub.mirror import await_declaration, check_mirror, is_shared, set_mirror
from hub.rabbithub.resource import (
    Place,
    RabbitHubMessage,
    address,
    create,
    delete,
    delete_subscription,
    exists,
    find,
    identity,
    publish,
    subscribe,
)
from hub.rabbithub.token import generate, is_right
from webhooks.custom_header import is_coding, is_ours, is_private
from webhooks.message import as_sent

__all__ = ["RABBITHUB_ROUTES"]

_log = structlog.get_logger(__name__)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_USES = ("subscribe", "unsubscribe")
_MIRRORS: Final = {"true": True, "false": False, "default": None}
_HEADER_NAME = re.compile(r"[a-z0-9-]{1,100}")
_PAGE_MAX = 1_000
_QUERY_FIELDS_MAX = 64
_DAY_SECONDS = 86_400
_DAYS_MAX = 36_500
"""Longer than any lease; the database refuses moments beyond the calendar."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A parsed request.

    ``what`` is endpoint, subscribe, subscriptions or errors; ``place`` None where none is named.
    """

    request: Request
    what: str
    place: Place | None
    query: Mapping[str, str]

    def named(self) -> Place:
        if self.place is None:
            raise FormRefused(404, "", "there is nothing at this address")
        return self.place


class _Whole(StringConvertor):
    """Matches the rest of the path, also line breaks, which the framework's own ``path`` refuses."""

    regex = "(?s:.*)"


def _need_of(scope: Scope) -> Need:
    """Return the need of this request, by its verb."""
    _, what, rest = parts_of(_raw_path(scope))
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    found = _VERBS.get((method, "errors" if (what, rest) == ("subscriptions", ["errors"]) else what))
    if (scope["method"], what) == ("GET", "endpoint") and _brings_token(scope):
        return OPEN
    return default_need(scope["method"]) if found is None else found[1]


def _brings_token(scope: Scope) -> bool:
    """Return whether another hub verifies one of our exchanges or queues: the token in its query is then
    checked.
    """
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query.get("hub.mode", [""])[-1] in _USES and "hub.verify_token" in query


@needs_by(_need_of)
async def _endpoint(request: Request) -> Response:
    try:
        return await _answer(context_of(request).hub, _call(request))
    except FormRefused as refused:
        wait = {} if refused.retry_after_seconds is None else {"Retry-After": str(refused.retry_after_seconds)}
        return PlainTextResponse(f"{refused.text}\n", refused.status, wait)
    except DatabaseError as error:
        _log.warning("rabbithub_request_not_stored", error=str(error))
        return PlainTextResponse("nothing can be stored right now\n", 503, {"Retry-After": "5"})


register_url_convertor("whole", _Whole())
RABBITHUB_ROUTES: Final = (Route("/rabbithub/{path:whole}", _endpoint, methods=_METHODS, name="rabbithub"),)
"""The routes below /rabbithub; every method is answered here."""


def _raw_path(scope: Scope) -> str:
    """Return the path as it was sent: a slash within a name must not look like one between names."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1")


def _call(request: Request) -> _Call:
    vhost, what, rest = parts_of(_raw_path(request.scope))
    try:
        query = dict(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX))
    except ValueError:
        raise FormRefused(400, "", f"the address has more than {_QUERY_FIELDS_MAX} parameters") from None
    if any("\0" in text for text in (vhost, *rest, *query.values())):
        raise FormRefused(400, "", "the address holds a NUL character")
    if what not in ("endpoint", "subscribe", "subscriptions"):
        raise FormRefused(404, "", "there is nothing at this address")
    if what == "subscriptions" and rest in ([], ["errors"]):
        return _Call(request, rest[0] if rest else what, None, query)
    if len(rest) != 2 or rest[0] not in ("x", "q"):
        raise FormRefused(404, "", "an address ends in x/NAME or q/NAME")
    return _Call(request, what, Place(vhost, rest[0], rest[1]), query)


async def _answer(hub: Hub, call: _Call) -> Response:
    found = _VERBS.get((call.request.method, call.what))
    if found is None:
        return PlainTextResponse("Invalid operation\n", 405, {"Allow": "GET, POST, PUT, DELETE"})
    return await found[0](hub, call)


async def _create(hub: Hub, call: _Call) -> Response:
    mirror = _mirror(call)
    asked = call.named()
    if mirror is not None or (hub.options.rabbithub_mirror and not await exists(hub, asked)):
        check_mirror(hub, asked, _MIRRORS[mirror or "default"])
    place, is_new = await create(hub, asked, call.query.get("amqp.exchange_type"))
    resource = await find(hub, place)
    if mirror is not None:
        await set_mirror(hub, resource, _MIRRORS[mirror])
    headers = {"Location": address(hub, "endpoint", place)}
    waits_for = await await_declaration(hub, resource)
    if waits_for is not None:
        return JSONResponse({"state": "declaring", "reason": waits_for}, 202, headers)
    return Response(status_code=201, headers=headers) if is_new else Response(status_code=204)


def _mirror(call: _Call) -> str | None:
    """Return ``amqp.mirror`` of the query; None: unchanged. Raise ``FormRefused`` 400."""
    mirror = call.query.get("amqp.mirror")
    if mirror is not None and mirror not in _MIRRORS:
        raise FormRefused(400, "amqp.mirror", f"is one of {', '.join(_MIRRORS)}")
    return mirror


async def _delete(hub: Hub, call: _Call) -> Response:
    await delete(hub, call.named(), if_empty="if-empty" in call.query)
    return Response(status_code=204)


async def _publish(hub: Hub, call: _Call) -> Response:
    resource = await find(hub, call.named())
    body = await _body(call.request, hub.options.fetch_bytes_max)
    try:
        headers = parse_headers(header_text(call.request, "x-rabbithub-msg_header") or "")
    except RoutingError as error:
        raise FormRefused(400, "x-rabbithub-msg_header", str(error)) from None
    correlation = _correlation(hub, call)
    id_header = _chosen_header(call, "set_message_id", hub.options.message_id_header)
    message = RabbitHubMessage(
        body, call.query.get("hub.topic", ""), header_text(call.request, "content-type"), {**headers, **correlation},
        id_header,
    )  # fmt: skip
    if resource.is_default_exchange:
        named = Place(resource.place.vhost, "q", message.routing_key)
        if is_shared(hub, named):
            resource = await find(hub, named)
        else:
            await bind_queue_of_key(hub, resource, message.routing_key)
    number = await publish(hub, resource, message, key_id_of(call.request))
    identified = {} if id_header is None else {id_header: format_event_id(hub.incarnation, number)}
    if identified or correlation:
        # The caller chose the names of the headers, so they must not be keyword arguments of the logger.
        ids = {"message_id": identified, "correlation_id": correlation}
        _log.info("rabbithub_published", sequence=number, resource=resource.place.name, **ids)
    returned = {name: as_sent(value) for name, value in correlation.items()}
    return Response(status_code=202, headers={**returned, **identified, "Hookwire-Sequence": str(number)})


def _correlation(hub: Hub, call: _Call) -> dict[str, str]:
    """Read the header that ``set_correlation_id=HEADER`` names; it is logged, returned and forwarded."""
    name = _chosen_header(call, "set_correlation_id", hub.options.correlation_id_header)
    value = header_text(call.request, name) if name is not None else None
    return {} if name is None or value is None else {name: value}


def _chosen_header(call: _Call, parameter: str, configured: str) -> str | None:
    """Return a header's name, of the query or of the hub's settings; raises ``FormRefused`` 400."""
    name = call.query.get(parameter, configured).lower()
    if not name:
        return None
    if not _HEADER_NAME.fullmatch(name) or is_ours(name) or is_coding(name):
        raise FormRefused(400, parameter, "is no header's name, or one that the hub sets itself")
    if is_private(name):
        raise FormRefused(400, parameter, f"is {name}, which may hold a secret of the publisher and is never forwarded")
    return name


async def _subscribe(hub: Hub, call: _Call) -> Response:
    body = await _body(call.request, 64 * 1024)
    wish = read_wish(header_text(call.request, "content-type") or "", body)
    resource = await find(hub, call.named())
    if resource.is_default_exchange:
        raise FormRefused(403, "", "the default exchange takes no subscription: subscribe to a queue")
    queue = await bound_queue(hub, resource, wish)
    if queue is not None:
        if wish.mode is Mode.SUBSCRIBE and is_shared(hub, queue.place):
            raise FormRefused(409, "", "the queue is AMQP's, too: bind it there")
        await (bind if wish.mode is Mode.SUBSCRIBE else unbind)(hub, resource, queue, wish.hub_topic)
        return Response(status_code=204)
    intent_id = await subscribe(hub, resource, wish)
    if wish.verify is Verify.ASYNC:
        return Response(status_code=202)
    reason = await outcome(hub, intent_id)
    if reason is not None:
        return PlainTextResponse(f"{reason}\n", 400)
    if "ha_mode" in wish.details:
        return JSONResponse({"consumers": [{"node": hub.options.public_url, "status": "ok"}]}, 201)
    return Response(status_code=204)


async def _delete_subscription(hub: Hub, call: _Call) -> Response:
    resource = await find(hub, call.named())
    callback, topic = _pair(call)
    await delete_subscription(hub, resource, topic, callback)
    return JSONResponse({"subscriptions": [{"node": hub.options.public_url, "status": "deleted"}]})


async def _subscriptions(hub: Hub, call: _Call) -> Response:
    pair, expires_seconds = None, None
    if call.place is not None:
        callback, topic = _pair(call)
        pair = identity(await find(hub, call.place), topic, callback)
    if "hub.expires" in call.query:
        expires_seconds = min(_number(call, "hub.expires"), _DAYS_MAX) * _DAY_SECONDS
    asked = ("rabbithub.subscriptions", hub.tenant, _after(call), pair, expires_seconds, _PAGE_MAX + 1)
    async with context_of(call.request).answers.share() as share:
        rows = await share.fetch(lambda room: hub.database.fetch(*asked, room))
        if call.place is None:
            return await _list(call, share, "subscriptions", rows, record)
        if not rows:
            raise FormRefused(404, "", "there is no such subscription")
        return await share.one(lambda: record(rows[0]), row_bytes(rows[0]))


async def _errors(hub: Hub, call: _Call) -> Response:
    asked = ("rabbithub.errors", hub.tenant, _after(call), _PAGE_MAX + 1)
    async with context_of(call.request).answers.share() as share:
        rows = await share.fetch(lambda room: hub.database.fetch(*asked, room))
        return await _list(call, share, "errors", rows, error_record)


async def _list(
    call: _Call, share: Share, name: str, rows: Sequence[Row], shape: Callable[[Row], Mapping[str, Any]]
) -> Response:
    """Return the rows that fit, with a link to the others if there are any."""
    fitting = [row for row in rows[:_PAGE_MAX] if row["fits"]]
    answer = await share.list_of(fitting, shape, row_bytes, name=name)
    if len(fitting) < len(rows):
        query = urlencode({**call.query, "after": fitting[-1]["id"]})
        answer.headers["Link"] = f'<{_raw_path(call.request.scope)}?{query}>; rel="next"'
    return answer


async def _import(hub: Hub, call: _Call) -> Response:
    """Import each item by itself: an item that fails has its reason and does not stop the others."""
    if call.place is not None:
        raise FormRefused(405, "", "Invalid operation")
    results = []
    body = await _body(call.request, hub.options.fetch_bytes_max)
    for item in await asyncio.to_thread(read_import, body):  # a MiB of JSON must not block the loop
        result = {name: item.get(name) for name in ("resource_name", "topic", "callback")}
        try:
            place, wish, active = imported(item)
            await import_subscription(hub, place, wish, active=active)
            results.append({**result, "status": "ok"})
        except FormRefused as refused:
            results.append({**result, "status": "error", "reason": refused.text})
    taken = sum(result["status"] == "ok" for result in results)
    await hub.database.execute("rabbithub.note_import", hub.tenant, actor_of(call.request), taken)
    return JSONResponse({"subscriptions": results}, 202)


async def _get(hub: Hub, call: _Call) -> Response:
    mode = call.query.get("hub.mode")
    try:
        resource = await find(hub, call.named())
    except FormRefused:
        if mode in _USES:  # without a key: do not reveal which resources exist
            raise FormRefused(400, "", _NOT_TOLD) from None
        raise
    if mode is None:
        accept = call.request.headers.get("accept", "")
        return description(resource, address(hub, call.what, resource.place), as_json="json" in accept)
    if mode == "generate_token":
        grant = grant_of(call.request)
        if grant is not None and not grant.has("publish"):
            raise FormRefused(403, "", "a token needs an API key with the scope publish")
        use = call.query.get("hub.intended_use", "")
        if use not in _USES:
            raise FormRefused(400, "hub.intended_use", "is subscribe or unsubscribe")
        token = generate(hub.secret_box, resource, use, call.query.get("rabbithub.data", ""))
        form = f"hub.verify_token={quote(token, safe='')}"
        return Response(form, media_type="application/x-www-form-urlencoded")
    if mode in _USES and is_right(hub.secret_box, resource, mode, call.query.get("hub.verify_token", "")):
        return PlainTextResponse(call.query.get("hub.challenge", ""))
    raise FormRefused(400, "", _NOT_TOLD)


def _pair(call: _Call) -> tuple[str, str]:
    for name in ("hub.callback", "hub.topic"):
        if name not in call.query or (name == "hub.callback" and not call.query[name]):
            raise FormRefused(400, name, "is missing")
    return call.query["hub.callback"], call.query["hub.topic"]


def _after(call: _Call) -> int:
    return _number(call, "after") if "after" in call.query else 0


def _number(call: _Call, name: str) -> int:
    text = call.query[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise FormRefused(400, name, "is a whole number")
    return int(text)


async def _body(request: Request, bytes_max: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise FormRefused(413, "", f"the body is larger than {bytes_max} bytes")
    return body


_NOT_TOLD: Final = "Invalid operation, or the token is not for it"
_VERBS: Final[Mapping[tuple[str, str], tuple[Callable[[Hub, _Call], Awaitable[Response]], Need]]] = {
    ("PUT", "endpoint"): (_create, Need(("admin",))),
    ("DELETE", "endpoint"): (_delete, Need(("admin",))),
    ("POST", "endpoint"): (_publish, Need(("publish",))),
    ("GET", "endpoint"): (_get, Need(("read",))),
    ("POST", "subscribe"): (_subscribe, Need(("subscribe",))),
    ("DELETE", "subscribe"): (_delete_subscription, Need(("admin",))),
    ("GET", "subscribe"): (_get, Need(("read",))),
    ("GET", "subscriptions"): (_subscriptions, Need(("read",))),
    ("POST", "subscriptions"): (_import, Need(("admin",))),
    ("GET", "errors"): (_errors, Need(("read",))),
}
