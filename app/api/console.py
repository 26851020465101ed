"""The status page at ``/``: for the person who wants to see that nothing is lost."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from app.api.context import Context, context_of
from app.pages.status import COUNTED_MAX, Status, page, status_content, unreachable_content
from db.errors import Busy, OutcomeUnknown, Unavailable

__all__ = ["PAGE_POLICY", "router"]

router = APIRouter(include_in_schema=False)
In = Annotated[Context, Depends(context_of)]

_ROWS: Final = 10
_SECONDS: Final = 5
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page of ours may do in a browser; ``nonce`` is that of its own style and script."""


@router.get("/")
async def status_page(context: In) -> Response:
    """Server-rendered; its one script only fetches the page again."""
    code = 200
    try:
        async with asyncio.timeout(_SECONDS):
            content = status_content(await _status(context))
    except (Busy, OutcomeUnknown, Unavailable, TimeoutError):
        code, content = 503, unreachable_content(context.relay_states())
    nonce = secrets.token_urlsafe(16)
    headers = {"Content-Security-Policy": PAGE_POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
    return Response(page(content, nonce), code, headers, media_type="text/html")


async def _status(context: Context) -> Status:
    fetch = context.database.fetch
    totals = await context.database.fetchrow("console.totals", "default", COUNTED_MAX + 1)
    assert totals is not None, "a row of scalars"
    return Status(
        public_url=context.public_url,
        profile=context.settings.profile,
        incarnation=context.incarnation,
        relay_states=context.relay_states(),
        totals=totals,
        sinks=await fetch("outbox.oldest", COUNTED_MAX + 1),
        topics_lately=await fetch("console.topics_lately", "default", _ROWS),
        topics=await fetch("topic.list", "default", "", _ROWS),
        subscription_counts=await fetch("subscription.count", "default"),
        subscriptions=await fetch("console.last_subscriptions", "default", _ROWS),
        open_deliveries=await fetch("console.open_deliveries", _ROWS // 2),
        dead_letters=await fetch("console.last_dead_letters", _ROWS),
        holds=await fetch("hold.list", _ROWS + 1),
    )
