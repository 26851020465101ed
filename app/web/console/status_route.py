"""The route of the status page at ``/``."""

from __future__ import annotations

import secrets
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from app.web.api.route.context import Context, context_of
from app.web.console.status_page import outage_content, page, status_content
from app.web.overview import Status
from app.web.scopes import needs

__all__ = ["PAGE_POLICY", "router"]

router = APIRouter(include_in_schema=False)
In = Annotated[Context, Depends(context_of)]

PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of our pages. ``nonce`` permits their own style and script."""


@router.get("/")
@needs("read")
async def status_page(context: In) -> Response:
    """Return the page as HTML; its script only fetches it again. Requests within a second share one answer."""
    found = await context.overview.get()
    if isinstance(found, Status):
        code, content = 200, status_content(found)
    else:
        code, content = 503, outage_content(found, context.relay_states())
    nonce = secrets.token_urlsafe(16)
    headers = {"Content-Security-Policy": PAGE_POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
    return Response(page(content, nonce), code, headers, media_type="text/html")
