"""POST /hub: the one URL of the WebSub hub (W3C WebSub 5.1).

    subscribe, unsubscribe   202 when committed; verified afterwards
    publish                  204; with the content, in a form or as the body of /hub/content, 202
    anything wrong           4xx, 503; plain text that names the parameter
    PubSubHubbub 0.3, sync   204 when verified, 409 with the reason when not
    GET                      a page of help; with hub.* in the query 405, because forms are POSTed

Answers are plain text and not problem documents: WebSub's clients show them to their users.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.web.api.route.context import context_of
from app.web.api.route.effect import tell_without_effect
from app.web.authentication import key_id_of
from app.web.header_text import header_text
from app.web.scopes import needs, open_to_all
from db.errors import DatabaseError
from event.hops import HOPS_HEADER
from hub.acceptance import Hub, accept, outcome, ping
from hub.content import check_hops, check_signature, distribute
from hub.form import FORM_BYTES_MAX, FormRefused, Pinging, Subscribing, Verify, read
from hub.topic_url import hub_url, url_of
from hub.upstream import confirm, receive

__all__ = ["HUB_ROUTES"]

_log = structlog.get_logger(__name__)

_CHANGES = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_RETRY_AFTER_SECONDS = 5
_WARNING = "accepted, but hub.secret was sent over plain http: anyone on the network can forge deliveries\n"
_HELP = """\
This is a WebSub hub (https://www.w3.org/TR/websub/).

Subscribe:    curl {hub} -d hub.mode=subscribe -d hub.topic={topic} \\
                  --data-urlencode hub.callback=https://you.example/callback
Unsubscribe:  the same with hub.mode=unsubscribe
Optional:     hub.lease_seconds, hub.secret (at most 199 bytes), hub.hash_algorithms (sha256, sha1, sha384, sha512)

The answer is 202. Then the callback gets a GET with hub.challenge in its query; it answers 2xx with that text as the
whole body. From then on each event of the topic is POSTed to it.
"""


_Answer = Callable[[Hub, Request], Awaitable[Response]]


def _guarded(answer: _Answer) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
        return await _or_refusal(answer, request)

    return guarded


async def _or_refusal(answer: _Answer, request: Request) -> Response:
    try:
        return await answer(context_of(request).hub, request)
    except FormRefused as refused:
        return _refusal(refused)
    except DatabaseError as error:
        # Repeating a request is harmless, so an unknown outcome has the same answer as a failure.
        _log.warning("hub_request_not_stored", error=str(error))
        return _refusal(
            FormRefused(503, "", "the hub cannot store anything right now", retry_after_seconds=_RETRY_AFTER_SECONDS)
        )


async def _answer(hub: Hub, request: Request) -> Response:
    if request.method in ("GET", "HEAD"):
        return _help(hub, request)
    if request.method != "POST":
        return _not_allowed("GET, HEAD, POST")
    asked = read(header_text(request, "content-type"), await _body(request, FORM_BYTES_MAX), hub.options.dialect)
    if isinstance(asked, Pinging):
        return await _ping(hub, request, asked)
    if hub.options.moved_to:
        return Response(status_code=307, headers={"Location": hub.options.moved_to})
    warning = _check_secret(hub, request, asked)
    intent_id = await accept(hub, asked, request.client.host if request.client else None)
    if asked.verify is Verify.SYNC:
        return await _verified(hub, intent_id)
    return PlainTextResponse(warning, status_code=202)


async def _ping(hub: Hub, request: Request, asked: Pinging) -> Response:
    if asked.content is None:
        response = Response(status_code=204)
        if notices := await ping(hub, asked):
            tell_without_effect(request, response, "ping", "; ".join(notices))
        return response
    check_signature(hub, asked.content.body, asked.content.signature)
    return await _distributed(hub, request, asked.topic_urls[0], asked.content.body, None)


async def _content(hub: Hub, request: Request) -> Response:
    """Publish the body as the topic's content. Authentication has checked the sender."""
    named = request.query_params.getlist("hub.topic")
    if len(named) != 1 or "\0" in named[0]:
        raise FormRefused(400, "hub.topic", "must be given once, in the query")
    body = await _body(request, hub.options.fetch_bytes_max)
    hops = check_hops(request.headers.get(HOPS_HEADER))
    return await _distributed(hub, request, named[0], body, header_text(request, "content-type"), hops)


async def _upstream(hub: Hub, request: Request) -> Response:
    """Serve our own callback, where other hubs verify and deliver."""
    token = request.path_params["token"]
    if "\0" in token or any("\0" in value for value in request.query_params.values()):
        raise FormRefused(404, "", "there is no such callback")
    if request.method != "POST":
        return PlainTextResponse(await confirm(hub, token, request.query_params))
    signatures = request.headers.getlist("x-hub-signature")
    hops = check_hops(request.headers.get(HOPS_HEADER))
    read = partial(_body, request, hub.options.fetch_bytes_max)
    await receive(hub, token, read, header_text(request, "content-type"), signatures, hops)
    return Response(status_code=202)


async def _distributed(
    hub: Hub, request: Request, topic_url: str, body: bytes, content_type: str | None, hops: int = 0
) -> Response:
    number = await distribute(hub, topic_url, body, content_type, hops, key_id=key_id_of(request))
    return JSONResponse({"sequence": number}, status_code=202)


async def _verified(hub: Hub, intent_id: int) -> Response:
    """Answer 204 when the callback has confirmed, else the reason."""
    reason = await outcome(hub, intent_id)
    return Response(status_code=204) if reason is None else _text(409, reason, {})


def _help(hub: Hub, request: Request) -> Response:
    if any(name.startswith("hub.") for name in request.query_params):
        return _not_allowed("POST")
    public_url = hub.options.public_url
    return PlainTextResponse(_HELP.format(hub=hub_url(public_url), topic=url_of(public_url, "orders.paid")))


async def _body(request: Request, bytes_max: int) -> bytes:
    """Read the body, at most one chunk beyond the limit, which shows that it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            break
    return body


def _check_secret(hub: Hub, request: Request, asked: Subscribing) -> str:
    """Check the secret's transport. The connection counts as https also where a proxy ended TLS, by the public
    URL.
    """
    is_https = request.url.scheme == "https" or hub.options.public_url.startswith("https://")
    policy = hub.options.secret_over_http
    if asked.secret is None or is_https or policy == "allow":
        return ""
    if policy == "reject":
        raise FormRefused(400, "hub.secret", "is only accepted over https")
    _log.warning("secret_over_http", topic_url=asked.topic_url)
    return _WARNING


def _not_allowed(allow: str) -> Response:
    return _text(405, "requests to the hub are forms that are POSTed", {"Allow": allow})


def _refusal(refused: FormRefused) -> Response:
    headers = {}
    if refused.retry_after_seconds is not None:
        headers["Retry-After"] = str(refused.retry_after_seconds)
    if refused.status == 413:
        headers["Connection"] = "close"  # the rest of the body is not read
    return _text(refused.status, refused.text, headers)


def _text(status: int, text: str, headers: Mapping[str, str]) -> Response:
    return PlainTextResponse(f"{text}\n", status_code=status, headers=headers)


HUB_ROUTES: Final = (
    Route("/hub", needs("subscribe", "read", websub=True)(_guarded(_answer)), methods=["GET"], name="hub_help"),
    Route("/hub", needs("subscribe", websub=True)(_guarded(_answer)), methods=_CHANGES, name="hub"),
    Route("/hub/content", needs("publish")(_guarded(_content)), methods=["POST"], name="hub_content"),
    # Another hub has no key; the secret of our callback is its path.
    Route("/hub/callback/{token}", open_to_all(_guarded(_upstream)), methods=["GET", "POST"], name="hub_callback"),
)
"""The routes of this file; every method of /hub is answered here, in plain text."""
