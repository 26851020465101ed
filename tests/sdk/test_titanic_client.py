"""The client of Titanic: its conversations without I/O, and both clients against a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookwire.services import (
    AsyncTitanicClient,
    NoReply,
    RequestRefused,
    RequestUnknown,
    StillPending,
    TitanicClient,
    TitanicOptions,
)  # fmt: skip
from hookwire.services.titanic_steps import Call, Pause, TitanicSteps
from tests.reqrep.running import running_worker
from tests.reqrep.titanic.peers import titanic_broker

ID = "ab" * 16
PATIENT: dict[str, Any] = {"timeout_seconds": 5.0, "tries": 6}


class Conversation:
    """Runs steps with given answers; a pause moves the clock."""

    def __init__(self, *answers: list[bytes]) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, list[bytes]]] = []
        self.pauses: list[float] = []
        self._answers = iter(answers)
        self.steps = TitanicSteps(TitanicOptions(0.5, 2.0, 10.0), lambda: self.now)

    def run(self, steps: Any) -> list[bytes]:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Call):
                    self.calls.append((step.service, step.body))
                    step = steps.send(next(self._answers))
                else:
                    assert isinstance(step, Pause)
                    self.pauses.append(step.seconds)
                    self.now += step.seconds
                    step = steps.send([])
        except StopIteration as end:
            return list(end.value)


def test_a_call_submits_looks_with_growing_pauses_and_closes() -> None:
    """TI-21."""
    talk = Conversation([b"200", ID.encode()], *[[b"300"]] * 4, [b"200", b"one", b""], [b"200"])
    assert talk.run(talk.steps.call("echo", [b"x"], 60)) == [b"one", b""]
    asked = [service for service, _ in talk.calls]
    assert (asked, talk.pauses) == (
        ["titanic.request", *["titanic.reply"] * 5, "titanic.close"], [0.5, 1.0, 2.0, 2.0]
    )  # fmt: skip


def test_text_behind_the_digits_of_a_status_is_ignored() -> None:
    """TI-05, ZD-17: the reference compares the whole frame and ends at "200 OK"."""
    talk = Conversation([b"200 OK", ID.encode()], [b"300 pending"], [b"200 fine", b"reply"], [b"200 OK"])
    assert talk.run(talk.steps.call("echo", [b"x"], 60)) == [b"reply"]


def test_a_failing_store_is_asked_again_and_given_up_after_the_time() -> None:
    """TI-05, ZD-17: the reference ends at the first 500."""
    talk = Conversation([b"500"], [b"500 later"], [b"200", ID.encode()])
    assert talk.run(talk.steps.submit("echo", [b"x"])) == [ID.encode()]
    hopeless = Conversation(*[[b"500"]] * 20)
    with pytest.raises(NoReply, match="500"):
        hopeless.run(hopeless.steps.submit("echo", [b"x"]))
    assert (talk.pauses, sum(hopeless.pauses) >= 10) == ([0.5, 1.0], True)


def test_400_is_not_asked_again() -> None:
    """TI-05."""
    refused, unknown = Conversation([b"400"]), Conversation([b"400 unknown"])
    with pytest.raises(RequestRefused, match="400"):
        refused.run(refused.steps.submit("mmi.x", [b"x"]))
    with pytest.raises(RequestUnknown, match=ID):
        unknown.run(unknown.steps.wait(ID, 60))


def test_a_wait_ends_with_its_time_and_names_the_request() -> None:
    talk = Conversation(*[[b"300"]] * 9)
    with pytest.raises(StillPending, match=ID):
        talk.run(talk.steps.wait(ID, 3.0))
    assert sum(talk.pauses) == 3.0


def test_the_client_for_threads_fetches_with_the_id_alone(tmp_path: Path) -> None:
    """TI-21, TI-22."""
    with titanic_broker(tmp_path) as broker, TitanicClient(*broker.endpoints, **PATIENT) as client:
        request_id = client.submit("echo", b"one", b"")
        before = client.fetch(request_id)
        with pytest.raises(StillPending):
            client.wait(request_id, 0.01)
        with running_worker(*broker.endpoints), TitanicClient(*broker.endpoints, **PATIENT) as other:
            reply = other.wait(request_id, 60)
            again = client.fetch(request_id)
            other.close_request(request_id)
            called = other.call("echo", b"two")
        with pytest.raises(RequestUnknown):
            client.fetch(request_id)
        with pytest.raises(RequestRefused):
            client.submit("mmi.service", b"x")
    assert (before, reply, again, called) == (None, [b"one", b""], [b"one", b""], b"two")


async def test_the_client_for_asyncio_waits_for_many_requests(tmp_path: Path) -> None:
    """TI-21."""
    with titanic_broker(tmp_path) as broker, running_worker(*broker.endpoints, concurrency=2):
        async with AsyncTitanicClient(*broker.endpoints, **PATIENT) as client:
            ids = [await client.submit("echo", b"%d" % number) for number in range(20)]
            replies = [await client.wait(request_id, 60) for request_id in reversed(ids)]
            fetched = await client.fetch(ids[0])
            await client.close_request(ids[0])
            called = await client.call("echo", b"x")
    assert (replies, fetched, called) == ([[b"%d" % number] for number in reversed(range(20))], [b"0"], b"x")
