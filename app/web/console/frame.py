"""The frame of a request's page: its menu by the rights of the reader, and whether a form would be accepted."""

from __future__ import annotations

import dataclasses

from fastapi import Request

from app.web.api.route.context import context_of
from app.web.authentication import grant_of
from app.web.console.menu import MENU
from app.web.pages.sessions import form_token
from app.web.pages.shell import PageFrame
from app.web.pages.sign_in_page import bare_frame
from hub.keys import SCOPES, Scope

__all__ = ["frame_of", "rights_of"]


def frame_of(request: Request) -> PageFrame:
    """Return the frame."""
    context, grant = context_of(request), grant_of(request)
    token: str = getattr(request.state, "session", "")
    return dataclasses.replace(
        bare_frame(request.scope),
        place=context.public_url,
        menu=MENU,
        actor=(grant.name or grant.key_id) if grant is not None else "",
        token=form_token(token) if token else "",
        may_act=bool(token) or not context.settings.needs_keys,
    )


def rights_of(request: Request) -> frozenset[Scope]:
    """Return the scopes whose acts the reader may be offered; none where no form of the reader can be accepted."""
    grant = grant_of(request)
    if not frame_of(request).may_act:
        return frozenset()
    return frozenset(scope for scope in SCOPES if grant is None or grant.has(scope))
