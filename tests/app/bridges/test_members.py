"""The order in which a member stores its trust, believes it, and takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from app.bridges import members, membership
from app.bridges.members import Members
from db.errors import Unavailable
from tests.app.bridges.test_membership import Clock
from tests.waiting import until

_OWN, _OTHER = 7, 8


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (members, membership):
        monkeypatch.setattr(module, "boot_seconds", made)
    return made


def row(id_: int, *, is_present: bool = True, trust_seconds: float | None = None) -> dict[str, Any]:
    """A member as a beat lists it."""
    return {"id": id_, "trust_seconds": trust_seconds, "is_present": is_present, "is_own": id_ == _OWN}


class Server:
    """The database, and a session in it: what it answers to a beat, and what was asked."""

    def __init__(self, *others: dict[str, Any]) -> None:
        self.rows = [row(_OWN), *others]
        self.entered = 0
        self.beats: list[float | None] = []
        self.inherited: list[list[int]] = []
        self.lost = asyncio.Event()
        self.on_beat: Callable[[], None] = lambda: None
        self.is_silent = False
        self.is_locked = True
        self.look: Callable[[str], object] = lambda _: None
        self.options = SimpleNamespace(primary=SimpleNamespace(on_change=self._note_change))
        self.changed: Callable[[], None] = lambda: None

    def _note_change(self, act: Callable[[], None]) -> None:
        self.changed = act

    async def connect(self) -> Any:
        return self

    async def aclose(self) -> None:
        """Nothing is open."""

    async def listen(self, _: str, look: Callable[[str], object]) -> None:
        self.look = look

    async def fetchrow(self, statement: str, *_: object) -> dict[str, Any]:
        assert statement == "delivery.enter"
        self.entered += 1
        return {"id": _OWN, "is_kept": False, "is_locked": self.is_locked}

    async def execute(self, statement: str, *_: object) -> None:
        assert statement == "delivery.leave"

    async def fetch(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        if statement == "delivery.inherit":
            self.inherited.append(arguments[0])
            return []
        self.beats.append(arguments[1])
        self.on_beat()
        if self.is_silent:
            raise Unavailable("no answer")
        return self.rows


@asynccontextmanager
async def member(server: Server) -> AsyncIterator[Members]:
    """A member of this server, while the block runs."""
    database: Any = server
    found = Members(database, server.connect, "w1", lambda _: None)
    running = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        found.stop()
        await running


async def beaten(server: Server, *, more: int = 1) -> None:
    """Let the member beat again so often."""
    for _ in range(more):
        count = len(server.beats)
        server.look("")
        await until(lambda before=count: len(server.beats) > before)


async def test_trust_is_limited_before_others_can_read_it(clock: Clock) -> None:
    """TO-01: the answer to the beat that stores the trust is lost. Others have read it by then."""
    server = Server(row(_OTHER))
    seen: list[bool] = []

    def time_passes() -> None:
        if server.beats[-1] is not None:
            held = belonging.current()
            clock.now += 1.0
            seen.append(held is not None and not held.holds())
            server.is_silent = True

    async with member(server) as belonging:
        server.on_beat = time_passes
        await until(lambda: len(seen) > 0)
    assert seen[0]


async def test_trust_counts_from_before_the_question(clock: Clock) -> None:
    """TO-01: an answer that comes after the time is over gives none."""
    server = Server(row(_OTHER))
    async with member(server) as belonging:
        await until(lambda: server.beats[-1:] == [1.0])
        held = belonging.current()
        server.on_beat = lambda: setattr(clock, "now", clock.now + 1.0)
        await beaten(server)
        assert held is not None
        assert not held.holds()


async def test_after_a_late_answer_claims_are_of_no_member_for_a_while(clock: Clock) -> None:
    """A slow database would otherwise abort the requests of each second."""
    server = Server(row(_OTHER))
    async with member(server) as belonging:
        await until(lambda: server.beats[-1:] == [1.0])
        clock.now += 1.5
        await beaten(server, more=2)
        late = belonging.current()
        clock.now += 10.0
        await beaten(server, more=2)
        clock.now += 10.0
        await beaten(server)
        server.rows = [row(_OWN)]
        await beaten(server, more=2)
        clock.now += 10.0
        assert late is None
        assert belonging.current() is not None


async def test_a_free_lock_is_waited_for_as_long_as_its_holder_trusts_it(clock: Clock) -> None:
    """TO-01: the time begins anew when the stored trust is another one."""
    absent = row(_OTHER, is_present=False, trust_seconds=1.0)
    server = Server(absent)
    async with member(server):
        await until(lambda: len(server.beats) > 0)
        clock.now += 1.9
        await beaten(server, more=2)
        assert server.inherited == []
        absent["trust_seconds"] = 3.0
        await beaten(server, more=2)
        clock.now += 3.9
        await beaten(server, more=2)
        assert server.inherited == []
        clock.now += 0.1
        await beaten(server, more=2)
        await until(lambda: [_OTHER] in server.inherited)


async def test_another_server_is_no_answer(clock: Clock) -> None:
    """HA-03: what a server before has answered is not trusted."""
    server = Server(row(_OTHER))
    async with member(server) as belonging:
        await until(lambda: server.beats[-1:] == [1.0])
        held = belonging.current()
        server.changed()
        assert held is not None
        assert not held.holds()


async def test_a_member_whose_lock_another_session_holds_is_none(clock: Clock) -> None:
    server = Server()
    server.is_locked = False
    async with member(server) as belonging:
        await until(lambda: server.entered > 1)  # it tries again with another number
        assert belonging.current() is None
        assert server.beats == []
