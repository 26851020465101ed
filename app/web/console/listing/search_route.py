"""The search box: an id leads to its page; any other text is looked up as name, key and host."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from app.web.console.cells import address, link_to
from app.web.console.frame import frame_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.listing.list_view import Item, rows_table
from app.web.console.listing.lists import LISTS
from app.web.console.listing.search import NAMED, host_in, page_of_id
from app.web.console.page_route import PageRoute
from app.web.pages.markup import facts, section
from app.web.pages.shell import page
from app.web.problem import Problem
from app.web.scopes import needs
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_SEE_OTHER: Final = 303
_TEXT_MAX: Final = 300
_ROWS: Final = 10
_SERVER_ERROR: Final = 500


@router.get("/search")
@needs(*SCOPES, reach="route")
async def search(request: Request) -> Response:
    """Lead to the page of an id, or return what has this name."""
    text = request.query_params.get("q", "").strip()[:_TEXT_MAX]
    if (found := page_of_id(text)) is not None:
        return RedirectResponse(found, _SEE_OTHER)
    content = section("Search", await _found(request, text) if text else _NOTHING)
    return page(frame_of(request), "Search", content)


_NOTHING: Final = (
    '<p class="soft">Give the id of an event, a delivery, a subscription, a job ..., a name, or the host of a callback.'
    "</p>"
)


async def _found(request: Request, text: str) -> str:
    """Return what has this name, this key or this host."""
    return await _named(request, text) + await _by_key(request, text) + await _by_host(request, text)


async def _named(request: Request, text: str) -> str:
    """Return links to what has this name."""
    rows = []
    for kind, title, path in NAMED:
        try:
            await inner_api_of(request).ask(request, ApiRequest("GET", path.replace("{}", quote(text, safe=""))))
        except Problem as problem:
            if problem.status >= _SERVER_ERROR:
                raise
            continue
        rows.append((title, link_to(kind, text)))
    return facts(rows) if rows else '<p class="soft">No topic, queue or service has this name.</p>'


async def _by_key(request: Request, text: str) -> str:
    """Return the latest events of this key, as far as the reader's key may see them."""
    items = await _items(request, "/events", key=text)
    if items is None:
        return ""
    if not items:
        return '<p class="soft">No event has this key.</p>'
    rows = rows_table(LISTS["events"], items)
    return f'<p>Events with this key: <a href="{escape(address("events", key=text))}">all</a></p>{rows}'


async def _by_host(request: Request, text: str) -> str:
    """Return the first subscriptions of this callback's host; nothing where the text names no host, or it has none."""
    host = host_in(text)
    items = await _items(request, "/subscriptions", host=host) if host is not None else None
    if host is None or not items:
        return ""
    rows = rows_table(LISTS["subscriptions"], items)
    where = escape(address("subscriptions", host=host))
    return f'<p>Subscriptions with a callback at this host: <a href="{where}">all</a></p>{rows}'


async def _items(request: Request, path: str, **query: str) -> Sequence[Item] | None:
    """Return the first items of a list; None where the reader's key may not see it."""
    try:
        ask = ApiRequest("GET", path, {**query, "limit": str(_ROWS)})
        found: Sequence[Item] = (await inner_api_of(request).ask(request, ask))["items"]
    except Problem as problem:
        if problem.status >= _SERVER_ERROR:
            raise
        return None
    return found
