"""The page of an address below /console that no other route takes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.web.console.page_route import PageRoute
from app.web.problem import Problem
from app.web.scopes import needs
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)


@router.get("/{rest:path}")
@needs(*SCOPES, reach="route")
async def nowhere(rest: str) -> Response:
    """Say that there is no such page."""
    raise Problem("not-found", "The console has no page at this address.")
