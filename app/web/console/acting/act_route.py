"""The routes of the acts: the form by GET, the act by POST. The API judges it, and writes the audit entry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from app.web.api.route.context import context_of
from app.web.console.acting.act import Act, act_content, counted_mark
from app.web.console.acting.acts import ACTS, NEW
from app.web.console.acting.bulk_acts import BULK
from app.web.console.cells import address
from app.web.console.frame import frame_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.page_route import PageRoute
from app.web.console.signing.form import own_form
from app.web.pages.markup import section
from app.web.pages.shell import page
from app.web.problem import Problem
from app.web.scopes import needs
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_SEE_OTHER: Final = 303
_TOLD_IN_PLACE: Final = range(400, 500)
_QUICKLY_COUNTED_MAX: Final = 5_000


@router.get("/{kind}/new")
@needs(*SCOPES, reach="route")
async def new_form(request: Request, kind: str) -> Response:
    """Return the form that makes a new thing. The query fills its fields."""
    return await _first_page(request, _new(kind), f"{kind}/new", "", dict(request.query_params))


@router.post("/{kind}/new")
@needs(*SCOPES, reach="route")
async def new(request: Request, kind: str) -> Response:
    """Make a new thing."""
    return await _do(request, _new(kind), f"{kind}/new", kind, "")


@router.get("/{kind}/all/{name}")
@needs(*SCOPES, reach="route")
async def bulk_form(request: Request, kind: str, name: str) -> Response:
    """Return the form of an act on all that match. The query, the filters of the list, fills its fields."""
    where, form = address(kind, "all", name), dict(request.query_params)
    return await _first_page(request, _found(BULK, kind, name), where, "", form)


@router.post("/{kind}/all/{name}")
@needs(*SCOPES, reach="route")
async def bulk(request: Request, kind: str, name: str) -> Response:
    """Count what matches, and with a confirmation do it."""
    return await _do(request, _found(BULK, kind, name), address(kind, "all", name), kind, "")


@router.get("/{kind}/{identity}/{name}")
@needs(*SCOPES, reach="route")
async def act_form(request: Request, kind: str, identity: str, name: str) -> Response:
    """Return the form of an act on one thing."""
    return await _first_page(request, _found(ACTS, kind, name), address(kind, identity, name), identity, {})


@router.post("/{kind}/{identity}/{name}")
@needs(*SCOPES, reach="route")
async def act(request: Request, kind: str, identity: str, name: str) -> Response:
    """Do it."""
    return await _do(request, _found(ACTS, kind, name), address(kind, identity, name), kind, identity)


def _new(kind: str) -> Act:
    if kind not in NEW:
        raise Problem("not-found", "The console makes no such thing.")
    return NEW[kind]


def _found(acts: Mapping[str, Sequence[Act]], kind: str, name: str) -> Act:
    found = next((one for one in acts.get(kind, ()) if one.name == name), None)
    if found is None:
        raise Problem("not-found", "The console has no such act.")
    return found


async def _first_page(request: Request, act: Act, where: str, identity: str, form: Mapping[str, str]) -> Response:
    """Return the form, with the number of what its fields choose, if that is quickly counted."""
    if act.foretells:
        return _form_page(request, act, where, identity, form, forecast=await _forecast(request, act, identity))
    if act.counts is None:
        return _form_page(request, act, where, identity, form)
    ask = act.counts(identity, form)
    bounded = json.loads(ask.body or b"{}") | {"count_max": _QUICKLY_COUNTED_MAX}
    try:
        counted = await inner_api_of(request).ask(request, ApiRequest.with_json(ask.method, ask.path, bounded))
    except Problem as problem:
        if problem.status not in _TOLD_IN_PLACE:
            raise
        return _form_page(request, act, where, identity, form)
    return _form_page(request, act, where, identity, form, count=act.counted(counted), is_open=True)


async def _forecast(request: Request, act: Act, identity: str) -> str:
    """Return what would happen, in words; nothing where that cannot be read."""
    try:
        path = act.foretells.replace("{}", quote(identity, safe=""))
        return act.foretold(await inner_api_of(request).ask(request, ApiRequest("GET", path)))
    except Problem:
        return ""


async def _do(request: Request, act: Act, where: str, kind: str, identity: str) -> Response:
    form = await own_form(request)
    inner = inner_api_of(request)
    try:
        if act.counts is not None and (form.get("recount") or form.get("counted") != counted_mark(act, form)):
            counted = await inner.ask(request, act.counts(identity, form))
            return _form_page(request, act, where, identity, form, count=act.counted(counted))
        answer = await inner.ask(request, act.ask(identity, form))
    except Problem as problem:
        if problem.status not in _TOLD_IN_PLACE:
            raise
        return _form_page(request, act, where, identity, form, refusal=problem)
    if act.shows is not None:
        return page(frame_of(request), act.label, section(act.label, act.shows(answer)))
    root = frame_of(request).root
    if act.lands is not None:
        return RedirectResponse(f"{root}{act.lands(identity, answer)}", _SEE_OTHER)
    return RedirectResponse(f"{root}{address(kind, identity, done=act.name)}", _SEE_OTHER)


def _form_page(
    request: Request, act: Act, where: str, identity: str, form: Mapping[str, str],
    *, refusal: Problem | None = None, count: str | None = None, is_open: bool = False, forecast: str = "",
) -> Response:  # fmt: skip
    frame, public_url = frame_of(request), context_of(request).public_url
    told = refusal.detail if refusal is not None else "" if frame.may_act else _SIGN_IN
    content = act_content(
        frame, act, where, identity, form, public_url, refusal=told, count=count, is_open=is_open, forecast=forecast
    )
    return page(frame, act.label, content, refusal.status if refusal is not None else 200)


_SIGN_IN: Final = "You have not signed in here, so this form would be refused. Sign in by the form of the console."
