"""The page of an event: what became of it, step by step, and how to send the same again."""

from __future__ import annotations

import shlex
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.web.api.route.context import context_of
from app.web.console.cells import body, link_to, moment_cell, plain, reason_cell
from app.web.console.frame import frame_of
from app.web.console.inner_api import ApiRequest, inner_api_of
from app.web.console.listing.list_view import Item
from app.web.console.page_route import PageRoute
from app.web.console.showing.detail import Detail, facts_content
from app.web.pages.markup import code, lines, section, table
from app.web.pages.shell import page
from app.web.scopes import needs
from hub.keys import SCOPES

__all__ = ["router"]

router = APIRouter(prefix="/console", include_in_schema=False, route_class=PageRoute)
_EVENT: Final = Detail(
    "events", "Event", "", "hookwire events trace {}",
    first=("topic", "key", "state", "summary", "accepted_at", "sequence", "next_attempt_at", "content_type", "headers"),
)  # fmt: skip
_STEPS_MAX: Final = 60
_COPIED_MAX: Final = 1_000
_ANSWER_MAX: Final = 200


@router.get("/events/{identity}")
@needs(*SCOPES, reach="route")
async def show(request: Request, identity: str) -> Response:
    """Return the facts, the timeline and the content."""
    frame, inner, path = frame_of(request), inner_api_of(request), f"/events/{quote(identity, safe='')}"
    one = await inner.ask(request, ApiRequest("GET", path))
    found = await inner.ask(request, ApiRequest("GET", f"{path}/timeline"))
    content = facts_content(_EVENT, identity, one, "") + timeline_content(found["steps"])
    content += section("Content", _content(one), plain(one["content_type"]))
    content += _again(one, context_of(request).public_url)
    return page(frame, f"Event {identity}", content, is_live=True)


def timeline_content(steps: list[Item]) -> str:
    """Return the steps, each behind what it follows from."""
    rows = [
        [moment_cell(step["at"]), _name(step), reason_cell(step["state"], step["reason"]), _answer(step)]
        for step in steps[:_STEPS_MAX]
    ]
    left = len(steps) - _STEPS_MAX
    aside = f"the first {_STEPS_MAX} of {len(steps)} steps" if left > 0 else "each behind what it follows from"
    return section("Timeline", table(["When", "Step", "State", "~Answer"], rows), aside)


def _name(step: Item) -> str:
    if step["kind"] == "attempt":
        return f"attempt {step['number']}"
    if step["kind"] == "delivery":
        return f"matched {link_to('subscriptions', step['subscription_id'])}, {link_to('deliveries', step['name'])}"
    if step["kind"] == "unmatched":
        return f"not matched {link_to('subscriptions', step['subscription_id'])}"
    if step["kind"] == "accepted":
        return f"accepted to {link_to('topics', step['name'])}"
    return f"sink {code(step['name'])}"


def _answer(step: Item) -> str:
    return code(step["answer"][:_ANSWER_MAX]) if step["answer"] else ""


def _content(one: Item) -> str:
    found = one["payload"] if one["payload"] is not None else one["payload_base64"]
    return body(found) if found else '<p class="soft">It is empty, or your key may not read contents.</p>'


def _again(one: Item, public_url: str) -> str:
    """Return the lines that publish the same content; nothing where it is not shown or long."""
    content = one["payload"]
    if content is None or len(content) > _COPIED_MAX:
        return ""
    kind = ["--content-type", one["content_type"]] if one["content_type"] else []
    key = ["--key", one["key"]] if one["key"] is not None else []
    header = ["-H", f"Content-Type: {one['content_type'] or ''}"]
    named = ["-H", f"Hookwire-Key: {one['key']}"] if one["key"] is not None else []
    curl = shlex.join(["curl", f"{public_url}/topics/{one['topic']}/events", *header, *named, "--data-binary", content])
    command = shlex.join(["hookwire", "publish", one["topic"], content, *key, *kind])
    return section("The same again, as a new event", lines(command) + lines(curl))
