"""A membership in NELI's group without a broker: what its clients are told, what its listener does, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from db.pool import PoolOptions
from relay.election.neli import NeliElection
from relay.election.neli_beat import value_of
from relay.election.neli_core import Assigned, Beat, Confirm, Confirmed, Heard, Input, Revoked, SendBeat
from relay.election.neli_group import Membership, _Listener
from relay.election.neli_options import NeliOptions
from relay.election.port import LeadershipLost, Lease
from relay.kafka.options import KafkaOptions
from relay.sink import SinkUnavailable
from tests.relay.harness import DEADLINE_SECONDS

KAFKA = KafkaOptions("localhost:1", "abcd2345")
OPTIONS = NeliOptions("me", "abcd2345")
LOG_APPEND_TIME = 1


async def nothing() -> None:
    """A barrier that is always open."""


def membership(monkeypatch: pytest.MonkeyPatch, hear: Callable[[Input], None]) -> tuple[Membership, dict[str, Any]]:
    """One without clients, and what its consumer was told."""
    told: dict[str, Any] = {}
    monkeypatch.setattr("relay.election.neli_group.AIOKafkaConsumer", lambda **settings: told.update(settings))
    monkeypatch.setattr("relay.election.neli_group.AIOKafkaProducer", lambda **_: None)
    return Membership(KAFKA, OPTIONS, hear, nothing), told


def test_a_member_does_not_go_by_the_clients_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """RK-01, RK-07, RK-08: nothing commits by itself, a crash is noticed in 6 s, a stop leaves the group at once."""
    _, told = membership(monkeypatch, lambda _: None)
    assert (told["enable_auto_commit"], told["auto_offset_reset"]) == (False, "latest")
    assert (told["session_timeout_ms"], told["rebalance_timeout_ms"]) == (6_000, 10_000)
    assert told["heartbeat_interval_ms"] <= 2_000
    assert told["rebalance_timeout_ms"] < told["max_poll_interval_ms"] < 300_000
    assert "group_instance_id" not in told


async def test_the_listener_tells_first_and_then_keeps_the_rebalance_waiting() -> None:
    """RK-03, RK-04: it only tells; what it raised, the client would swallow."""
    heard: list[Input] = []
    opened = asyncio.Event()

    async def barrier() -> None:
        await opened.wait()

    listener = _Listener(heard.append, barrier)
    revoking = asyncio.create_task(listener.on_partitions_revoked([]))
    await asyncio.sleep(0)
    meanwhile = (list(heard), revoking.done())
    opened.set()
    await revoking
    await listener.on_partitions_assigned([TopicPartition("t", 1), TopicPartition("t", 3)])
    assert (meanwhile, heard[1:]) == (([Revoked()], False), [Assigned(frozenset({1, 3}))])


def read(value: bytes, timestamp_type: int) -> SimpleNamespace:
    """A record of the election's topic."""
    return SimpleNamespace(
        topic="t", partition=2, offset=7, value=value, timestamp=1_000, timestamp_type=timestamp_type
    )


def test_only_beats_that_the_broker_has_stamped_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """RK-09, RL-18, RL-19: goneli takes any record, and the sender's clock, for a sign of life."""
    heard: list[Input] = []
    member, _ = membership(monkeypatch, heard.append)
    beat = Beat("me", 1)
    member._read(read(b"1700000000%relay-1", LOG_APPEND_TIME))
    member._read(read(value_of(beat), LOG_APPEND_TIME))
    with pytest.raises(SinkUnavailable, match="LogAppendTime"):
        member._read(read(value_of(beat), timestamp_type=0))
    assert heard == [Heard(2, beat, 1_000)]


class Loopback:
    """A membership whose broker returns and confirms each beat, until its client ends without a word."""

    def __init__(
        self, _: KafkaOptions, __: NeliOptions, hear: Callable[[Input], None], ___: Callable[[], Awaitable[None]]
    ) -> None:
        self.ended = asyncio.Event()
        self.left = False
        self._hear = hear

    async def join(self) -> int:
        return 1

    async def heartbeat(self) -> None:
        self._hear(Assigned(frozenset({0})))
        await self.ended.wait()
        raise SinkUnavailable("the client's own task has ended")

    async def beat(self, sent: SendBeat) -> None:
        self._hear(Heard(sent.partition, sent.beat, 1_000))

    def confirm(self, asked: Confirm) -> None:
        asyncio.get_running_loop().call_soon(self._hear, Confirmed(asked.partition, asked.number))

    async def leave(self) -> None:
        self.left = True


class Terms:
    """A database that knows one lease."""

    number = 0
    options = PoolOptions("")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Terms]:
        yield self

    async def execute(self, *_: object) -> int:
        return 1

    async def fetch(self, *_: object) -> list[dict[str, object]]:
        return [{"grp": 0, "term": self.number, "is_open": True}]

    async def fetchrow(self, name: str, *_: object) -> dict[str, object]:
        self.number += name == "term.raise"
        return {"term": self.number, "layout": 1, "batch_no": 0, "groups": 1, "order_scope": "topic_key"}


async def until_deposed(election: NeliElection, lease: Lease) -> None:
    """Hold a lease, whoever asks for it."""
    async with election.hold(lease):
        await asyncio.Event().wait()


async def test_when_its_client_ends_a_leader_is_deposed_and_stands_again_with_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RK-05, RK-10: the client says nothing of it, and a membership is never repaired."""
    made: list[Loopback] = []

    def make(*given: Any) -> Loopback:
        made.append(Loopback(*given))
        return made[-1]

    monkeypatch.setattr("relay.election.neli.Membership", make)
    database: Any = Terms()
    election = NeliElection(database, KAFKA, "kafka", OPTIONS)
    service = asyncio.create_task(election.run())
    async with asyncio.timeout(DEADLINE_SECONDS):
        first = await election.acquire()
        led = election.trusted(0)
        made[0].ended.set()
        with pytest.raises(LeadershipLost, match="membership in the election has ended"):
            await until_deposed(election, first)
        trusted = election.trusted(0)
        second = await election.acquire()
        async with election.hold(second):
            terms = (first.term.number, second.term.number)
        election.stop()
        await service
    assert (led, first.asked.is_set(), trusted, terms) == (True, True, False, (1, 2))
    assert [one.left for one in made] == [True, True]
