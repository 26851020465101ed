"""The first page of the console, and the old addresses that lead to it."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response

from app.web.api.dependency import In
from app.web.authentication import grant_of
from app.web.console.frame import frame_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.page_route import PageRoute
from app.web.console.status.status_page import outage_content, own_content, status_content
from app.web.overview import Status
from app.web.pages.shell import page
from app.web.scopes import needs, open_to_all
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_PERMANENT: Final = 308
_REFRESH: Final = "hookwire-refresh"
"""The header by which the script of a page asks for its content again."""


@router.get("/")
@open_to_all
async def root() -> Response:
    """Lead to the console; the address is relative, so that it is right behind any prefix."""
    return RedirectResponse("console", _PERMANENT)


@router.get("/console/")
@open_to_all
async def folder() -> Response:
    """Lead to the first page."""
    return RedirectResponse("../console", _PERMANENT)


@router.get("/pair")
@open_to_all
async def former_pair(request: Request) -> Response:
    """Lead to the page of a topic and a callback."""
    query = request.url.query
    return RedirectResponse(f"console/pair?{query}" if query else "console/pair", _PERMANENT)


@router.get("/console")
@needs(*SCOPES, reach="route")
async def status_page(request: Request, context: In) -> Response:
    """Return what needs action, then the overview; for a key of some topics, what concerns these.

    Requests within a second share one answer. Pages that refresh themselves share one that costs less, and is older.
    """
    grant, frame = grant_of(request), frame_of(request)
    if grant is not None and (grant.topics is not None or not grant.has("read")):
        return page(
            frame, "Status", own_content(await inner_api_of(request).ask(request, ApiRequest("GET", "/status")))
        )
    is_refresh = _REFRESH in request.headers
    found = await (context.overview.get_older() if is_refresh else context.overview.get())
    if isinstance(found, Status):
        answer = page(frame, "Status", status_content(found), is_live=True)
        answer.background = BackgroundTask(context.overview.count, is_refresh=is_refresh)
        return answer
    return page(frame, "Status", outage_content(found, context.relay_states()), 503, is_live=True)
