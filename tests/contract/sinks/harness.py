"""What an adapter gives to the conformance suite of the sink port: a harness, on which sinks of one lease are tried.

To add an adapter, write a module beside this one with an ``ADAPTER`` (or several), and put it into the list in
``tests/contract/test_sink_port.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol

import pytest

from relay.record import Record
from relay.sink import Sink, Term


class Kept(NamedTuple):
    """A record as a consumer of the broker sees it, committed records only."""

    key: str | None
    payload: bytes
    event_id: str
    sequence: int | None
    term: int


class Harness(Protocol):
    """One broker, and one lease at it that nobody else uses.

    ``homeless`` turns a record into one whose destination is missing; ``refused_bytes`` is the size of a payload that
    the broker refuses, 0 where none is too large.
    """

    refused_bytes: int

    def sink(self) -> Sink:
        """A new sink on the lease, not opened. The harness closes it at the end."""
        ...

    def unreachable(self) -> Sink:
        """A new sink whose broker does not answer."""
        ...

    def homeless(self, record: Record) -> Record: ...

    async def kept(self, topic: str) -> list[Kept]:
        """What the broker keeps of a topic, in order for each key."""
        ...


@dataclass(frozen=True)
class SinkAdapter:
    """``fence``: of two sinks on one lease, which one may send: the one opened last, the one opened first (the second
    cannot open), or both, because there is no fence. ``connects``: opening it asks a broker; ``has_destinations``: a
    record's destination may be missing."""

    name: str
    open: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Harness]]
    fence: Literal["last", "first", "none"]
    overlaps: bool
    manifests: bool
    refuses_large: bool = True
    connects: bool = True
    has_destinations: bool = True


FIRST_TERM = Term("kafka", 0, 1, 1, 0)
SECOND_TERM = replace(FIRST_TERM, number=2)


def record(number: int, topic: str, key: str | None = "k", payload: bytes | None = None) -> Record:
    return Record(
        id=number, shard=0, event_id=f"evt_abcd2345_{number}", tenant="default", topic=topic, key=key,
        sequence=None if key is None else number, content_type="text/plain", headers={"ce-type": "a.b"},
        payload=f"payload {number}".encode() if payload is None else payload,
        accepted_at=datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
    )  # fmt: skip


def seen(kept: list[Kept]) -> dict[str | None, list[int]]:
    """Per key the numbers of its records, in the order in which the broker has them."""
    numbers: dict[str | None, list[int]] = {}
    for entry in kept:
        numbers.setdefault(entry.key, []).append(int(entry.event_id.rpartition("_")[2]))
    return numbers
