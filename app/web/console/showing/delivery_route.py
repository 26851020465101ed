"""The page of a delivery: each attempt, with the receiver's own words."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.web.api.route.context import context_of
from app.web.console.acting.acts import ACTS
from app.web.console.cells import body, moment_cell, plain, state_cell
from app.web.console.frame import frame_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.listing.list_view import Item
from app.web.console.page_route import PageRoute
from app.web.console.showing.detail import Detail, acts_content, facts_content
from app.web.console.showing.detail_route import done_notice, may_do
from app.web.pages.markup import section, table
from app.web.pages.shell import page
from app.web.problem import Problem
from app.web.scopes import needs
from event.identity import format_event_id
from hub.keys import SCOPES
from webhooks.delivery_id import parse_delivery_id

__all__ = ["attempts_content", "router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_DELIVERY: Final = Detail("deliveries", "Delivery", "", "hookwire attempts {}", (), ACTS["deliveries"])
_ATTEMPTS_MAX: Final = 20
_WORDS_MAX: Final = 5


@router.get("/deliveries/{identity}")
@needs(*SCOPES, reach="route")
async def show(request: Request, identity: str) -> Response:
    """Return what is known of the delivery, and its latest attempts."""
    frame, inner = frame_of(request), inner_api_of(request)
    attempts = (await inner.ask(request, ApiRequest("GET", f"/deliveries/{quote(identity, safe='')}/attempts")))[
        "items"
    ]
    one = await _delivery(request, identity)
    acts = [act for act in _DELIVERY.acts if may_do(request, act)] if frame.may_act else []
    buttons = acts_content(_DELIVERY.kind, identity, one, acts)
    content = done_notice(request, acts) + facts_content(_DELIVERY, identity, one, buttons) + attempts_content(attempts)
    return page(frame, f"Delivery {identity}", content, is_live=True)


async def _delivery(request: Request, identity: str) -> Item:
    """Return the delivery from the list of its event."""
    numbers = parse_delivery_id(identity)
    assert numbers is not None, "the attempts were found by this id"
    event_id = format_event_id(context_of(request).incarnation, numbers[0])
    event = await inner_api_of(request).ask(request, ApiRequest("GET", f"/events/{event_id}"))
    found: Item | None = next((one for one in event["deliveries"] if one["id"] == identity), None)
    if found is None:
        raise Problem("not-found", f"The event {event_id} has no such delivery any more.")
    return {"event_id": event_id, **found}


def attempts_content(attempts: list[Item]) -> str:
    """Return the latest attempts, the newest first, and what the receiver answered to the last of them."""
    if not attempts:
        return section("Attempts", '<p class="soft">None yet.</p>')
    latest = attempts[::-1][:_ATTEMPTS_MAX]
    rows = [
        [
            plain(one["number"]), f"{state_cell(one['decision'])} {_answer(one)}", plain(one["detail"]),
            f"{one['total_seconds'] * 1000:,.0f} ms", plain(one["address"]), plain(one["worker"]),
            moment_cell(one["started_at"]),
        ]
        for one in latest
    ]  # fmt: skip
    heads = ["#Attempt", "Outcome", "Detail", "#Took", "~Address", "~Worker", "When"]
    words = "".join(_words(one) for one in latest[:_WORDS_MAX])
    return section("Attempts", table(heads, rows), f"{len(attempts):,} in all, newest first") + words


def _answer(one: Item) -> str:
    status = f" ({one['status']})" if one["status"] else ""
    return f'<span class="soft">{plain(one["outcome"].replace("_", " ") + status)}</span>'


def _words(one: Item) -> str:
    """Return the beginning of an answer with its headers; nothing where there is none to show."""
    if not one["response_body"] and not one["response_headers"]:
        return ""
    lines = "".join(f"{name}: {value}\n" for name, value in (one["response_headers"] or {}).items())
    return section(f"Answer to attempt {one['number']}", body(f"{lines}\n{one['response_body'] or ''}"))
