"""The routes of single things: their facts, their short lists, and the forms of what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.web.authentication import grant_of
from app.web.console.acting.act import Act, done_words
from app.web.console.frame import frame_of, rights_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.listing.list_view import Item
from app.web.console.listing.lists import LISTS
from app.web.console.page_route import PageRoute
from app.web.console.showing.detail import (
    SHORT_ROWS,
    Detail,
    Figure,
    acts_content,
    facts_content,
    settings_content,
    short_content,
)
from app.web.console.showing.details import DETAILS
from app.web.pages.shell import page
from app.web.problem import Problem
from app.web.scopes import needs
from hub.keys import SCOPES

__all__ = ["done_notice", "may_do", "router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_LEFT_OUT: Final = ("forbidden", "not-found", "invalid-parameter")


def may_do(request: Request, act: Act) -> bool:
    """Return whether the key of the reader has a scope of this act."""
    grant = grant_of(request)
    return grant is None or grant.has(*act.scopes)


def done_notice(request: Request, acts: Sequence[Act]) -> str:
    """Return the line about the act that has just led here."""
    name = request.query_params.get("done", "")
    return next((done_words(act) for act in acts if act.name == name), "")


def _route_of(detail: Detail) -> Callable[[Request, str], Coroutine[Any, Any, Response]]:
    @needs(*SCOPES, reach="route")
    async def show(request: Request, identity: str) -> Response:
        frame, one = frame_of(request), await _ask(request, detail.source, identity)
        acts = [act for act in detail.acts if may_do(request, act)] if frame.may_act else []
        buttons = acts_content(detail.kind, identity, one, acts)
        content = done_notice(request, acts) + facts_content(detail, identity, one, buttons) + detail.more(one)
        content += "".join([await _figure(request, part, identity) for part in detail.figures])
        content += "".join([await _short(request, detail, one, number) for number in range(len(detail.lists))])
        content += settings_content(detail, one)
        return page(frame, f"{detail.title} {identity}", content, is_live=True)

    return show


async def _ask(request: Request, source: str, identity: str) -> Item:
    """Return the answer of the API at this path, in which ``{}`` stands for the id."""
    path = source.replace("{}", quote(identity, safe=""))
    found: Item = await inner_api_of(request).ask(request, ApiRequest("GET", path))
    return found


async def _figure(request: Request, part: Figure, identity: str) -> str:
    """Return a figure; nothing where its answer cannot be had, so that the page stays."""
    try:
        return part.content(await _ask(request, part.source, identity))
    except Problem:
        return ""


async def _short(request: Request, detail: Detail, one: Item, number: int) -> str:
    """Return a short list; nothing where the reader's key may not see it."""
    short = detail.lists[number]
    query: Mapping[str, str] = short.query(one)
    ask = ApiRequest("GET", LISTS[short.view].source, {**query, "limit": str(SHORT_ROWS)})
    try:
        found = await inner_api_of(request).ask(request, ask)
        return short_content(short, query, found, rights_of(request))
    except Problem as problem:
        if problem.slug not in _LEFT_OUT:
            raise
        return ""


for _detail in DETAILS.values():
    router.add_api_route(
        f"/{_detail.kind}/{{identity}}", _route_of(_detail), methods=["GET"], name=f"console_{_detail.kind}_one"
    )
