"""The routes of the lists: each reads its list of the API, for the rights of its reader."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.web.console.frame import frame_of, rights_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.listing.list_view import ROWS, ListView, list_content
from app.web.console.listing.lists import LISTS
from app.web.console.page_route import PageRoute
from app.web.pages.shell import page
from app.web.problem import Problem
from app.web.scopes import needs
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_TOLD_IN_PLACE: Final = ("forbidden", "not-found", "invalid-parameter", "invalid-cursor", "missing-parameter")


def _route_of(view: ListView) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    @needs(*SCOPES, reach="route")
    async def show(request: Request) -> Response:
        frame, asked, status = frame_of(request), _asked(view, request), 200
        notice = ""
        found: dict[str, Any] = {"items": [], "next_cursor": None}
        try:
            found = await inner_api_of(request).ask(
                request, ApiRequest("GET", view.source, {**asked, **view.fixed, "limit": str(ROWS)})
            )
        except Problem as problem:
            if problem.slug not in _TOLD_IN_PLACE:
                raise
            status, notice = problem.status, problem.detail
        content = list_content(
            view, asked, found["items"], found["next_cursor"], notice, may_act=frame.may_act,
            rights=rights_of(request),
        )  # fmt: skip
        return page(frame, view.title, _done(request) + content, status, is_live=not notice)

    return show


_DONE: Final = {"retry": "retry", "give-up": "give up", "purge": "delete", "revoke": "revoke", "end": "end for good"}
"""The acts that lead to a list, because the thing may be gone, and their words."""


def _done(request: Request) -> str:
    """Return the line about the act that has just led here."""
    words = _DONE.get(request.query_params.get("done", ""))
    return f'<p class="notice" role="status">Done: {words}.</p>' if words else ""


def _asked(view: ListView, request: Request) -> Mapping[str, str]:
    """Return the filters and the cursor in the query; others are none of this list's."""
    names = ("cursor", *(one.name for one in view.filters))
    return {name: value for name in names if (value := request.query_params.get(name, "").strip())}


for _view in LISTS.values():
    router.add_api_route(f"/{_view.name}", _route_of(_view), methods=["GET"], name=f"console_{_view.name}")
