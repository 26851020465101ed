"""/incidents/{id}/probe: one dead letter is sent at once, as it is or edited, and the answer comes back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Body, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.operating.deliveries import Seconds
from app.web.api.operating.incidents import IncidentId, known_incident
from app.web.api.route.actor import Reason, actor_of
from app.web.api.route.context import Context
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import grant_of, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from egress.header import HeaderRefused
from egress.url import Target, UrlRefused, parse_target
from event.event import Event
from webhooks.contents import Contents
from webhooks.custom_header import checked_headers
from webhooks.delivery_id import format_delivery_id, parse_delivery_id
from webhooks.incidents.difference import difference
from webhooks.incidents.probe import Edit, Probe, send_probe
from webhooks.subscriber import Subscriber, Subscribers

__all__ = [
    "PROBE_EXAMPLE", "UNEDITED", "ProbeOut", "SentLetter", "known_letter", "record_letter", "router", "send_letter",
]  # fmt: skip

router = strict_router("/incidents", "incidents")
_CALLED: Final = ("webhook", "websub")
_CONTENT_MAX: Final = 65_536
_PROBES_MAX: Final = 10
_WORKER: Final = "probe"
PROBE_EXAMPLE: dict[str, Any] = {
    "delivery_id": "dlv_42_7",
    "edited": False,
    "signed": True,
    "delivered": True,
    "outcome": "delivered",
    "status": 204,
    "detail": None,
    "started_at": "2026-01-15T10:06:07.131002Z",
    "total_seconds": 0.012,
    "response_headers": None,
    "response_body": None,
}


class ProbeIn(Reason):
    """What to send. Without members it is the oldest dead letter, as it is."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"content": '{"total": 10}', "reason": "without the discount"}]}
    )

    dead_letter_id: str | None = Field(
        None, pattern=r"^dlv_[0-9]{1,18}_[0-9]{1,18}$", description="This one; null: the oldest of the incident."
    )
    content: str | None = Field(None, max_length=_CONTENT_MAX, description="Another content, as text.")
    headers: dict[str, str] = Field(
        default_factory=dict, max_length=20, description="Further headers, or others of the same name."
    )
    target: str | None = Field(None, max_length=2_000, description="Another URL than the callback.")


class ProbeOut(BaseModel):
    """The answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [PROBE_EXAMPLE]})

    delivery_id: str = Field(description="`GET /deliveries/{delivery_id}/attempts` has the attempt.")
    edited: bool
    signed: bool = Field(description="It had the signature and the secret headers of the subscription.")
    delivered: bool = Field(description="The answer was 2xx. Unedited, the dead letter is delivered by this.")
    outcome: str
    status: int | None
    detail: str | None
    started_at: datetime
    total_seconds: Seconds
    response_headers: dict[str, str] | None
    response_body: str | None = Field(
        description="The beginning of the answer, as text; null, like its headers, without the scope `payloads`."
    )


@dataclass(frozen=True, slots=True)
class SentLetter:
    """A dead letter that was sent, what came back, and what is told of it."""

    letter: Row
    probe: Probe
    answer: ProbeOut


@dataclass
class _Desk:
    """Counts the probes in flight, so that they take a few connections of the process at most."""

    sending: int = 0

    def __enter__(self) -> None:
        if self.sending >= _PROBES_MAX:
            raise Problem("busy", f"{_PROBES_MAX} probes are in flight.")
        self.sending += 1

    def __exit__(self, *_: object) -> None:
        self.sending -= 1


_DESK: Final = _Desk()
UNEDITED: Final = Edit()
"""The message as it is."""


@router.post(
    "/{incident}/probe",
    summary="Send one dead letter at once",
    responses=refusals(*OPTIONAL_BODY, "not-found", "forbidden"),
)
@needs("operate", reach="route")
async def probe(
    incident: IncidentId, body: Annotated[ProbeIn, Body(default_factory=ProbeIn)], request: Request, context: In
) -> ProbeOut:
    """Sends it now, also to a paused or disabled subscription, and answers with what the receiver said.

    An edited message has no signature and no secret header of the subscription, unless the key has the scope `admin`
    and the callback stays. To send it to another URL, the key needs the scope `payloads`.
    """
    row = await known_incident(request, incident, context)
    letter = await known_letter(row["id"], body.dead_letter_id, context)
    edit = _edit(body, letter, request, context)
    sent = await send_letter(letter, edit, body.reason, request, context, body.target)
    await record_letter(sent, context, ends=sent.answer.delivered and not sent.answer.edited)
    return sent.answer


async def send_letter(
    letter: Row, edit: Edit, why: str | None, request: Request, context: Context, target: str | None = None
) -> SentLetter:
    """Send a dead letter, as it is or edited. No transaction is open while the receiver thinks. The caller records it.

    ``target`` is the address of the edit, as the caller wrote it.
    """
    subscriber, event = await _message(letter, context)
    words = [None if edit.is_empty else difference(event, edit, target), why]
    reason = ": ".join(word for word in words if word) or None
    delivery = format_delivery_id(letter["event_id"], letter["subscription_id"])
    deadline = subscriber.timeout_seconds or context.settings.delivery_timeout_seconds
    grant = grant_of(request)
    with _DESK:
        # Before it is sent: a process that dies meanwhile has told who asked for it.
        await context.database.execute("incident.audit_probe", "default", actor_of(request), delivery, reason)
        sent = await send_probe(
            context.outbound, subscriber, event, edit, context.public_url, deadline,
            may_sign=grant is None or grant.has("admin"),
        )  # fmt: skip
    answer = _out(delivery, sent, is_edited=not edit.is_empty, with_answer=shows_payloads(request))
    return SentLetter(letter, sent, answer)


async def known_letter(incident: int, named: str | None, context: Context) -> Row:
    """Return the dead letter to send; ``Problem`` where there is none that can be."""
    event, subscription = parse_delivery_id(named) or (None, None) if named else (None, None)
    row = await context.database.fetchrow("incident.letter", "default", incident, event, subscription)
    if row is None:
        raise Problem("not-found", "The incident has no such dead letter that can be sent.")
    if row["protocol"] not in _CALLED:
        raise Problem("invalid-parameter", f"A subscription of the protocol {row['protocol']} is not probed.")
    return row


def _edit(body: ProbeIn, letter: Row, request: Request, context: Context) -> Edit:
    """Return what differs from the message; ``Problem`` where it may not be sent."""
    try:
        headers = checked_headers(body.headers)
    except HeaderRefused as error:
        raise Problem("invalid-parameter", str(error), parameter="headers") from None
    target = _target(body.target, context) if body.target not in (None, letter["callback"]) else None
    if target is not None and not shows_payloads(request):
        raise Problem("forbidden", "To send an event to another URL, the key needs the scope payloads.")
    try:
        content = None if body.content is None else body.content.encode()
    except UnicodeEncodeError:
        raise Problem("invalid-parameter", "The content holds half of a surrogate pair.", parameter="content") from None
    return Edit(content, headers, target)


def _target(url: str | None, context: Context) -> Target:
    try:
        return parse_target(url or "", context.policy)
    except UrlRefused as error:
        raise Problem("invalid-parameter", str(error), parameter="target") from None


async def _message(letter: Row, context: Context) -> tuple[Subscriber, Event]:
    """Return the subscriber with its opened secrets, and the event."""
    subscribers = Subscribers(context.database, context.hub.secret_box, context.policy)
    found = await subscribers.get([(letter["subscription_id"], letter["version"])])
    number = letter["event_id"]
    mark = await context.database.fence_mark()
    events, _ = await Contents(context.database, context.incarnation).get([number], 1)
    if number not in events or letter["subscription_id"] not in found:
        raise Problem("not-found", "The event or the subscription is gone.")
    await context.database.pass_fence(mark)
    return found[letter["subscription_id"]], events[number]


async def record_letter(sent: SentLetter, context: Context, *, ends: bool) -> None:
    """Store the attempt. With ``ends`` it ends the dead letter, in the same statement."""
    letter, outcome = sent.letter, sent.probe.outcome
    headers = json.dumps(dict(outcome.headers)) if outcome.headers else None
    await context.database.execute(
        "incident.record_probe", "default", letter["event_id"], letter["subscription_id"],
        ends, "edited" if sent.answer.edited else "probe", sent.probe.started_at,
        outcome.kind, outcome.status, outcome.connect_seconds, outcome.first_byte_seconds, outcome.total_seconds,
        outcome.address, outcome.detail, headers, outcome.body, _WORKER,
    )  # fmt: skip


def _out(delivery: str, sent: Probe, *, is_edited: bool, with_answer: bool) -> ProbeOut:
    outcome = sent.outcome
    return ProbeOut(
        delivery_id=delivery, edited=is_edited, signed=sent.is_signed, delivered=outcome.kind == "delivered",
        outcome=outcome.kind, status=outcome.status, detail=outcome.detail, started_at=sent.started_at,
        total_seconds=outcome.total_seconds,
        response_headers=dict(outcome.headers) if with_answer and outcome.headers else None,
        response_body=outcome.body.decode("utf-8", "replace") if with_answer and outcome.body else None,
    )  # fmt: skip
