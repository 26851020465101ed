"""webhooks/attempt.py: one POST, signed for itself."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from egress.client import Outbound, Request, Response
from egress.failure import DeadlineExceeded
from egress.guard import GuardPolicy
from egress.url import parse_target
from tests.hostile.server import hostile_server
from tests.waiting import until
from tests.webhooks.harness import Gated, delivery_harness
from tests.webhooks.test_message import KEY, event, subscriber
from tests.webhooks.test_worker import held
from tests.webhooks.verifying import verify_webhook
from webhooks.attempt import Attempts, result_of
from webhooks.claim import Claim
from webhooks.metrics import DeliveryMetrics
from webhooks.outcome import Outcome
from webhooks.worker_options import WorkerOptions

AT = datetime(2026, 1, 2, tzinfo=UTC)
TARGET = parse_target("https://a.example/hook", GuardPolicy())


class Recorded(Outbound):
    """Keeps the requests; each is answered alike, or not at all."""

    def __init__(self, *headers: tuple[str, str], status: int = 204, silent: bool = False) -> None:
        self.requests: list[Request] = []
        self._answer = Response(status, headers, b"", False, "203.0.113.1", 0.1, 0.1, 0.1)
        self._silent = silent

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        if self._silent:
            raise DeadlineExceeded("no answer in time")
        return self._answer

    async def aclose(self) -> None:
        """Nothing is open."""


def claim(**more: Any) -> Claim:
    """Of a subscriber with these fields."""
    to = subscriber(**{"target": TARGET, "keys": [KEY], **more})
    return Claim(event(), to, 1, 1, leased_until=1e9, made_at=0.0)


async def test_each_attempt_is_signed_over_its_own_time() -> None:
    """WH-S06: the id stays."""
    outbound = Recorded()
    attempts = Attempts(outbound, "https://hub.example", 3600)
    for seconds in (0, 300):
        await attempts.make([claim()], 15.0, AT + timedelta(seconds=seconds))
    first, second = (dict(request.headers) for request in outbound.requests)
    assert (first["webhook-id"], int(second["webhook-timestamp"]) - int(first["webhook-timestamp"])) == (
        second["webhook-id"],
        300,
    )
    for at, sent in ((0, first), (300, second)):
        verify_webhook([KEY], sent, outbound.requests[0].body, AT.timestamp() + at, tolerance_seconds=1)


async def test_a_subscriber_s_token_goes_in_a_header() -> None:
    """WH-C16: never in the query."""
    outbound = Recorded()
    bearer = {"authorization": "Bearer t"}
    await Attempts(outbound, "https://hub.example", 3600).make([claim(headers=bearer)], 15.0, AT)
    [request] = outbound.requests
    assert (dict(request.headers)["authorization"], request.target.request_target) == ("Bearer t", b"/hook")


@pytest.mark.parametrize("at_most_once", [False, True])
async def test_only_at_most_once_does_without_kept_connections(at_most_once: bool) -> None:
    """WH-O06."""
    outbound = Recorded()
    await Attempts(outbound, "https://hub.example", 3600).make([claim(at_most_once=at_most_once)], 15.0, AT)
    assert [request.reuse for request in outbound.requests] == [not at_most_once]


@pytest.mark.parametrize(("form", "seconds"), [("raw", 3600), ("as_published", 3600), ("binary", 7200)])
async def test_a_cloudevents_receiver_is_believed_for_longer(form: str, seconds: float) -> None:
    """WH-R06, WH-C15."""
    outbound = Recorded(("retry-after", "7200"), status=503)
    outcome = await Attempts(outbound, "https://hub.example", 3600).make([claim(format=form)], 15.0, AT)
    assert outcome.retry_after_seconds == seconds


async def test_no_answer_is_an_outcome_too() -> None:
    outcome = await Attempts(Recorded(silent=True), "https://hub.example", 3600).make([claim()], 15.0, AT)
    assert (outcome.kind, outcome.status) == ("timeout", None)


async def test_what_may_not_be_sent_is_not() -> None:
    """EG-03: and the reason is the outcome's."""
    outbound = Recorded()
    to = {"target": None, "refusal": "port 25 is not allowed"}
    outcome = await Attempts(outbound, "https://hub.example", 3600).make([claim(**to)], 15.0, AT)
    assert (outcome.kind, outcome.detail, outbound.requests) == ("blocked", "port 25 is not allowed", [])


async def test_large_bodies_are_delivered_and_counted(database_url: str) -> None:
    """WH-S10: the standard advises 20 kB at most."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        await harness.deliver(b"x" * 20_000, b"x" * 20_001)
        metrics = DeliveryMetrics(CollectorRegistry())
        async with harness.working(metrics=metrics):
            await harness.drained()
        counted = [sample.value for metric in metrics.large.collect() for sample in metric.samples]
        assert (len(server.requests), counted[0]) == (2, 1.0)


async def test_the_gauge_counts_requests_and_not_results_that_wait(database_url: str) -> None:
    """ADR 96: a result may wait for others after its request has ended."""
    received: list[bytes] = []
    release = asyncio.Event()
    async with delivery_harness(database_url) as harness, hostile_server(held(received, release)) as server:
        await harness.subscribe(server.url())
        await harness.deliver(b"{}")
        metrics, gated = DeliveryMetrics(CollectorRegistry()), Gated(harness.database)
        gated.gates["delivery.settle"] = asyncio.Event()

        def in_flight() -> float:
            return next(sample.value for metric in metrics.in_flight.collect() for sample in metric.samples)

        async with harness.working(metrics=metrics, database=gated):
            await server.until(lambda s: len(s.requests) == 1)
            during = in_flight()
            release.set()
            await until(lambda: gated.passed["delivery.settle"] == 1)
            after = in_flight()
            gated.gates["delivery.settle"].set()
        assert (during, after) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("status", "changes", "may_wait"),
    [
        (204, {}, True),
        (500, {}, False),
        (204, {"is_in_lane": True}, False),
        (204, {"is_probe": True}, False),
        (204, {"subscriber": subscriber(at_most_once=True)}, False),
        (204, {"leased_until": time.monotonic() + 0.2}, False),
    ],
    ids=["plain success", "failure", "ordered lane", "probe of a breaker", "at most once", "lease that ends soon"],
)
def test_only_a_success_that_nothing_depends_on_may_wait(status: int, changes: dict[str, Any], may_wait: bool) -> None:
    """ADR 55, 96."""
    outcome = Outcome("delivered" if status == 204 else "server_error", status)
    options = WorkerOptions("w", "https://hub.example", [5])
    result = result_of(claim()._replace(**changes), AT, outcome, options, lambda: 0.5, leads=True)
    assert result.may_wait is may_wait
