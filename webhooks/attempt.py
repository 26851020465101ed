"""Attempt: one POST of a claimed delivery, or of a batch of them, and the meaning of its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from egress.client import Outbound, Request
from egress.failure import OutboundError
from egress.retry_after import CAP_SECONDS_MAX
from event.cloudevents import is_opaque
from webhooks.breaker import after_probe, is_failure
from webhooks.claim import Claim
from webhooks.incidents.operator_event import RESERVED_PREFIX
from webhooks.lifetime import within_lifetime
from webhooks.message import REPLAY_HEADER, Messages
from webhooks.outcome import Outcome, outcome_of_error, outcome_of_response
from webhooks.result import AttemptName, Result
from webhooks.retry import DELIVERED, Decision, decide
from webhooks.subscriber import Subscriber
from webhooks.worker_options import WorkerOptions

__all__ = ["Attempts", "result_of"]

_log = structlog.get_logger(__name__)
_LEASE_SECONDS_MIN = 1.0
"""A result waits for others only while so much of its lease is left: four times the longest wait."""


class Attempts:
    """Makes attempts. ``retry_after_seconds_max`` limits a Retry-After; ``appends_hub_topic``: RabbitHub's callbacks
    find the routing key in their query.
    """

    def __init__(
        self, outbound: Outbound, public_url: str, retry_after_seconds_max: float, *, appends_hub_topic: bool = True
    ) -> None:
        self._appends_hub_topic = appends_hub_topic
        self._outbound = outbound
        self._messages = Messages(public_url)
        self._retry_after_seconds_max = retry_after_seconds_max

    async def make(
        self, claims: Sequence[Claim], deadline: float, started_at: datetime, not_after: float | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> Outcome:  # fmt: skip
        """Sign, send, judge; ``deadline`` in seconds covers all of it. A failure is an outcome too.

        The claims belong to one subscriber. Several are sent as one batch, and its outcome applies to each.

        Raises:
            NotSent: nothing could be sent until the monotonic time ``not_after``, or while ``may_send`` was true.
        """
        claim = claims[0]
        subscriber = claim.subscriber
        if subscriber.target is None:
            return Outcome(subscriber.refusal_kind, None, subscriber.refusal)
        headers, body = self._message(claims, int(started_at.timestamp()))
        if True in [claim.is_replay for claim in claims]:
            headers.append(REPLAY_HEADER)
        target = subscriber.target
        if subscriber.protocol == "rabbithub":
            headers.append(("x-amqp-redelivered", "true" if claim.position > 1 else "false"))
            if self._appends_hub_topic:
                target = target.with_query([("hub.topic", claim.event.headers.get("x-amqp-routing-key", ""))])
        # A kept connection may turn out to be closed, and then the client repeats the request by itself.
        request = Request(
            "POST", target, headers, body, deadline, not subscriber.at_most_once, not_after=not_after, may_send=may_send
        )
        started = time.monotonic()
        try:
            response = await self._outbound.send(request)
        except OutboundError as error:
            if error.reason != error.detail:
                _log.info("attempt_failed", subscription=subscriber.public_id, kind=error.kind, reason=error.reason)
            return outcome_of_error(error, time.monotonic() - started)
        return outcome_of_response(response, started_at, lambda: self._believed_seconds(subscriber))

    def _message(self, claims: Sequence[Claim], timestamp_seconds: int) -> tuple[list[tuple[str, str]], bytes]:
        subscriber, event = claims[0].subscriber, claims[0].event
        if subscriber.format != "batch" or is_opaque(event):
            return self._messages.delivery(event, subscriber, timestamp_seconds)
        return self._messages.batch([claim.event for claim in claims], subscriber, timestamp_seconds)

    def _believed_seconds(self, subscriber: Subscriber) -> float:
        """Return the wait to grant, never past the end of a WebSub lease. A CloudEvent demands up to a day."""
        most = CAP_SECONDS_MAX if subscriber.sends_cloudevents else self._retry_after_seconds_max
        return (
            most if subscriber.lease_until is None else min(most, max(subscriber.lease_until - time.monotonic(), 0.0))
        )


def result_of(
    claim: Claim,
    started_at: datetime,
    outcome: Outcome,
    options: WorkerOptions,
    chance: Callable[[], float],
    *,
    leads: bool,
) -> Result:  # fmt: skip
    """Return the result of a claim, from the outcome of its attempt.

    Only the first claim of a batch applies the outcome to the subscription and to its breaker.
    """
    subscriber, event = claim.subscriber, claim.event
    decision = DELIVERED if outcome.is_plain_success else _decision(claim, outcome, options, chance)
    may_wait = (
        decision is DELIVERED and not (claim.is_in_lane or claim.is_probe or subscriber.at_most_once)
        and claim.leased_until - time.monotonic() >= _LEASE_SECONDS_MIN
    )  # fmt: skip
    return Result(
        event.id, subscriber.id, claim.fence, subscriber.version, started_at, outcome,
        decision if leads else replace(decision, pause_seconds=None, end_state=None, end_reason=None),
        after_probe(outcome) if leads and claim.is_probe else None,
        is_failure(outcome) if leads else None,
        not event.topic.startswith(RESERVED_PREFIX),
        subscriber.protocol == "rabbithub" and outcome.kind != "delivered",
        claim.is_in_lane,
        AttemptName(event.incarnation, event.topic, subscriber.public_id, claim.position),
        may_wait,
        _age_seconds(claim, started_at, outcome),
    )  # fmt: skip


def _age_seconds(claim: Claim, started_at: datetime, outcome: Outcome) -> float | None:
    """Return the seconds from acceptance to delivery. A replay is not timed: its event may be a year old."""
    if claim.is_replay or outcome.kind != "delivered":
        return None
    return max((started_at - claim.event.accepted_at).total_seconds() + outcome.total_seconds, 0.0)


def _decision(claim: Claim, outcome: Outcome, options: WorkerOptions, chance: Callable[[], float]) -> Decision:
    """Decide by the policy of the subscriber, shortened by the event's own lifetime."""
    now = time.monotonic()
    policy = claim.subscriber.policy(
        options.schedule_seconds, options.age_seconds_max, options.errors, is_in_lane=claim.is_in_lane
    )
    rest = None if claim.planned_at is None else max(claim.planned_at - now, 0.0)
    return decide(outcome, claim.position, within_lifetime(policy, claim.event), chance(), rest, now - claim.made_at)
