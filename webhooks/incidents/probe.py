"""Probe: one dead letter sent at once, as it is or edited, so that its answer is seen before the others follow.

::

    dead letter --> message (signed: unedited, or an admin's edit for its own callback) --> answer
                                                                   |
        unedited and delivered: the dead letter is gone  <---------+---> else it stays
        each is an attempt: its trigger is probe, or edited

The request goes through the same guarded client as each delivery. A probe does not look at a pause, a breaker or the
state of the subscription: that is what it is for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from egress.client import Outbound, Request
from egress.failure import OutboundError
from egress.url import Target
from event.event import Event
from webhooks.message import REPLAY_HEADER, delivery_message
from webhooks.outcome import Outcome, outcome_of_error, outcome_of_response
from webhooks.subscriber import Subscriber

__all__ = ["Edit", "Probe", "send_probe"]

EDITED_HEADER = ("hookwire-edited", "true")
"""Marks a message that is not the one of its event."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is sent instead: None and an empty mapping change nothing. ``target``: another address than the callback."""

    payload: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    target: Target | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the message is sent as it is."""
        return self.payload is None and not self.headers and self.target is None


@dataclass(frozen=True, slots=True)
class Probe:
    """What became of a probe. ``is_signed``: it had the signature and the secret headers of the subscription."""

    started_at: datetime
    outcome: Outcome
    is_signed: bool


async def send_probe(
    outbound: Outbound, subscriber: Subscriber, event: Event, edit: Edit, public_url: str, deadline_seconds: float,
    *, may_sign: bool,
) -> Probe:  # fmt: skip
    """Send the message of an event to a subscriber, or its edit. A failure is an outcome, too.

    An edit is signed only with ``may_sign``, and never for another address: a signature vouches for the hub's words.
    """
    is_signed = edit.is_empty or (may_sign and edit.target is None)
    sender = subscriber if is_signed else replace(subscriber, keys=(), hub_secret=None, headers={})
    started_at, began = datetime.now(UTC), time.monotonic()
    target = edit.target or subscriber.target
    if target is None:
        return Probe(started_at, Outcome(subscriber.refusal_kind, None, subscriber.refusal), is_signed)
    sent = event if edit.payload is None else event._replace(payload=edit.payload)
    headers, body = delivery_message(sent, sender, int(started_at.timestamp()), public_url)
    headers = [one for one in headers if one[0] not in edit.headers] + [*edit.headers.items(), REPLAY_HEADER]
    if not edit.is_empty:
        headers.append(EDITED_HEADER)
    try:
        response = await outbound.send(Request("POST", target, headers, body, deadline_seconds, reuse=False))
    except OutboundError as error:
        return Probe(started_at, outcome_of_error(error, time.monotonic() - began), is_signed)
    return Probe(started_at, outcome_of_response(response, started_at, lambda: 0.0), is_signed)
