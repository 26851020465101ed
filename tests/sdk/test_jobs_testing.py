"""`hookwire.jobs.testing`: what was enqueued runs in the test's own process, without a hub."""

from __future__ import annotations

from typing import Any

import pytest

from hookwire.jobs import Failed, Handlers, Job, enqueue
from hookwire.jobs.testing import Ran, capture


def place_order(connection: Any, order: int) -> str:
    """A program's own code."""
    return str(enqueue(connection, "mail.send", {"order": order}, uniq="-"))


async def place_order_on_asyncio(connection: Any, order: int) -> str:
    return str(await enqueue(connection, "mail.send", {"order": order}))


def registered() -> Handlers:
    handlers = Handlers()

    @handlers.job("mail.send")
    async def send(job: Job) -> str:
        job.publish("mail.sent", {"order": job.args["order"]})
        job.enqueue("archive", job.args, priority=-1)
        return "sent"

    @handlers.job("archive", in_transaction=True)
    def archive(job: Job, connection: list[Any]) -> None:
        connection.append(job.args)

    @handlers.job("fails")
    async def fails(job: Job) -> None:
        raise Failed(f"attempt {job.attempt}", dead=job.attempt == 2)

    return handlers


async def test_what_was_enqueued_is_asserted_and_run_with_what_follows() -> None:
    rows: list[Any] = []
    with capture() as captured:
        first, again = place_order(None, 7), place_order(None, 7)
        await place_order_on_asyncio(object(), 8)
        captured.assert_enqueued("mail.send", {"order": 7}, count=1)
        ran = await captured.run(registered(), connection=rows)

    assert (first == again, captured.of("mail.send"), rows) == (
        True,
        [{"order": 7}, {"order": 8}],
        [{"order": 7}, {"order": 8}],
    )
    assert ran[0] == Ran("mail.send", {"order": 7}, "completed", "sent")
    assert captured.events[0] == {"topic": "mail.sent", "payload": {"order": 7}}


async def test_a_failed_job_is_tried_again_until_it_is_dead() -> None:
    with capture() as captured:
        enqueue(None, "fails")
        ran = await captured.run(registered())

    assert [(one.outcome, one.result) for one in ran] == [("failed", "attempt 1"), ("failed", "attempt 2")]


def test_what_was_not_enqueued_is_said_with_what_was() -> None:
    with capture() as captured:
        place_order(None, 7)
        with pytest.raises(AssertionError, match=r"mail\.send .*'order': 8.* 0 times; enqueued was .*'order': 7"):
            captured.assert_enqueued("mail.send", {"order": 8})


def test_outside_of_a_capture_the_connection_counts_again() -> None:
    with capture():
        pass
    with pytest.raises(TypeError):
        place_order(None, 7)
