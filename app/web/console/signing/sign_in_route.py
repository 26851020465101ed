"""The routes by which a browser signs in and out."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from app.web.api.route.audited import audited
from app.web.api.route.context import context_of
from app.web.authentication import Keyring
from app.web.console.page_route import PageRoute
from app.web.console.signing.form import own_form, read_form
from app.web.pages.sessions import COOKIE, SESSION_SECONDS, session_token
from app.web.pages.sign_in_page import bare_frame, return_address, sign_in_page
from app.web.problem import Problem
from app.web.scopes import needs, open_to_all
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_SEE_OTHER: Final = 303


@router.get("/sign-in")
@open_to_all
async def show(request: Request) -> Response:
    """Return the form; a hub without keys leads to its first page."""
    if _keyring(request) is None:
        return RedirectResponse("../console", _SEE_OTHER)
    return sign_in_page(bare_frame(request.scope), "../console")


@router.post("/sign-in")
@open_to_all
async def sign_in(request: Request) -> Response:
    """Begin a new session of a valid key, and lead to the page that was asked for; the browser's former one ends."""
    keyring = _keyring(request)
    if keyring is None:
        return RedirectResponse("../console", _SEE_OTHER)
    form = await read_form(request)
    key, address = form.get("key", "").strip(), return_address(form.get("next", ""))
    frame = bare_frame(request.scope)
    host = request.client.host if request.client is not None else ""
    try:
        known = await keyring.known(b"Bearer " + key.encode("ascii", "replace"), host, basic=False)
    except Problem as problem:
        if problem.slug != "unauthorized":
            raise
        return sign_in_page(frame, address, _UNKNOWN, 401)
    token = await keyring.sessions.begin(known.grant.key_id)
    if token is None:
        return sign_in_page(frame, address, _UNKNOWN, 401)
    if (former := session_token(request.scope)) is not None:
        await keyring.end_session(former)
    request.state.grant = known.grant
    await audited(request, context_of(request), "console.sign-in", known.grant.key_id)
    answer = RedirectResponse(address, _SEE_OTHER)
    _set_cookie(request, answer, token, SESSION_SECONDS)
    return answer


@router.post("/sign-out")
@needs(*SCOPES, reach="route")
async def sign_out(request: Request) -> Response:
    """End the session."""
    await own_form(request)
    keyring, token = _keyring(request), session_token(request.scope)
    answer = RedirectResponse("sign-in", _SEE_OTHER)
    if keyring is not None and token is not None:
        await keyring.end_session(token)
        _set_cookie(request, answer, "", 0)
    return answer


_UNKNOWN: Final = "This key is unknown, expired or revoked."


def _set_cookie(request: Request, answer: Response, token: str, seconds: int) -> None:
    """Set the cookie. It has no path: a browser then takes the folder of this route, /console, behind any prefix."""
    is_secure = context_of(request).public_url.startswith("https:")
    answer.set_cookie(COOKIE, token, seconds, path=None, secure=is_secure, httponly=True, samesite="lax")


def _keyring(request: Request) -> Keyring | None:
    found: Keyring | None = request.app.state.keyring
    return found
