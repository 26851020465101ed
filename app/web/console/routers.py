"""The routers of the console, in the order in which their routes are tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter

from app.web.console import nowhere_route
from app.web.console.acting import act_route
from app.web.console.listing import list_route, search_route
from app.web.console.showing import delivery_route, detail_route, event_route
from app.web.console.signing import sign_in_route
from app.web.console.status import diagnosis_route, status_route

__all__ = ["CONSOLE_ROUTERS"]

CONSOLE_ROUTERS: Final[Sequence[APIRouter]] = (
    status_route.router,
    sign_in_route.router,
    diagnosis_route.router,
    list_route.router,
    search_route.router,
    act_route.router,
    delivery_route.router,
    event_route.router,
    detail_route.router,
    nowhere_route.router,
)
