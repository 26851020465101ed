"""The nemesis: inject the plan's faults into the processes of a scenario, and heal them (HN-02, HN-05)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from app.chaos.broker import ChaosBroker
from app.chaos.child import Child
from app.chaos.plan import Fault, FaultKind
from app.chaos.scenario import Scenario
from db.embedded.postmaster import recorded_pid
from db.embedded.server import EmbeddedServer
from runtime.process import CUT_OFF_CODE

__all__ = ["Harm", "HarmFailed", "HarmOverdue", "Nemesis"]

_PATIENCE_SECONDS = 60.0
"""The limit of each wait for the system. A wait that reaches it is no verdict: the machine may only be busy."""
_TAKE_OVERS_MAX = 3
_REACHED_SECONDS_MAX = 5.0
_UNBOUND_SECONDS = 1.0


class HarmFailed(Exception):
    """The system broke a requirement under a fault, regardless of the sinks; the text says which."""


class HarmOverdue(Exception):
    """A step that a fault waits for did not come in time. It may still come; the text names it."""


@dataclass(frozen=True, slots=True)
class Harm:
    """One injected fault: ``accepted`` counts the events that were accepted between the fault and the end of
    healing.
    """

    fault: Fault
    at_seconds: float
    seconds: float
    accepted: int
    note: str = ""


class Nemesis:
    """Injects faults. ``pause_seconds``: how long a leader is stopped; longer than its lease and the broker's time
    limit.
    """

    def __init__(
        self, scenario: Scenario, broker: ChaosBroker, postgres: EmbeddedServer, data_dir: Path, pause_seconds: float
    ):
        self._scenario = scenario
        self._broker = broker
        self._postgres = postgres
        self._cluster = data_dir / "postgres"
        self._pause_seconds = pause_seconds
        self._deeds: dict[FaultKind, Callable[[Fault], Awaitable[str]]] = {
            FaultKind.KILL: self._kill,
            FaultKind.TAKE_OVER: self._take_over,
            FaultKind.DRAIN: self._drain,
            FaultKind.FAILPOINT: self._failpoint,
            FaultKind.DATABASE: self._database,
            FaultKind.UNBIND: self._unbind,
            FaultKind.DISCONNECT: self._disconnect,
        }

    async def do(self, fault: Fault, at_seconds: float) -> Harm:
        """Inject a fault, heal it, and return a report, with the first event that was accepted since.

        Raise :class:`HarmFailed`, :class:`HarmOverdue`, ``ChildFailed``.
        """
        began, before = time.monotonic(), self._scenario.accepted
        note = await self._deeds[fault.kind](fault)
        if not await _until(lambda: self._scenario.accepted > before, _PATIENCE_SECONDS):
            raise HarmOverdue(f"nothing was accepted during '{fault}', nor for {_PATIENCE_SECONDS:g} s after it")
        return Harm(fault, at_seconds, time.monotonic() - began, self._scenario.accepted - before, note)

    async def heal(self) -> None:
        """Start and resume everything, from any state."""
        self._broker.bound = True
        await self._postgres.start()
        for child in self._scenario.children:
            child.resume()
            if not child.is_running:
                await child.start()
            await child.ready()

    async def _leader(self) -> Child:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (leader := await self._scenario.leader("amqp")) is None:
            if time.monotonic() > deadline:
                raise HarmOverdue(f"no process leads the amqp sink after {_PATIENCE_SECONDS:g} s")
            await asyncio.sleep(0.05)
        return leader

    def _other(self, child: Child) -> Child:
        return next(one for one in self._scenario.children if one is not child)

    async def _kill(self, _: Fault) -> str:
        leader = await self._leader()
        await leader.kill()
        await leader.start()
        return leader.name

    async def _take_over(self, _: Fault) -> str:
        """Pause the leader until another leads. On a busy machine that may need another pause; none may be longer."""
        for _attempt in range(_TAKE_OVERS_MAX):
            leader = await self._leader()
            successor = self._other(leader)
            if await self._succeeds(successor, leader):
                await asyncio.sleep(1.0)  # time for the resumed process to break a rule
                await successor.kill()
                await successor.start()
                return f"{leader.name} stopped for {self._pause_seconds:g} s, then {successor.name} killed"
        raise HarmOverdue(
            f"no other process led when the leader was stopped for {self._pause_seconds:g} s, {_TAKE_OVERS_MAX} times"
        )

    async def _succeeds(self, successor: Child, leader: Child) -> bool:
        leader.pause()
        try:
            await asyncio.sleep(self._pause_seconds)
            return await self._scenario.leader("amqp") is successor
        finally:
            leader.resume()

    async def _drain(self, _: Fault) -> str:
        leader = await self._leader()
        try:
            code, seconds = await leader.drain(_PATIENCE_SECONDS)
        except TimeoutError:
            raise HarmOverdue(f"{leader.name} does not end within {_PATIENCE_SECONDS:g} s of SIGTERM") from None
        if code == CUT_OFF_CODE:
            raise HarmOverdue(f"{leader.name} was cut off {seconds:.1f} s after SIGTERM: a part did not close in time")
        if code != 0:
            raise HarmFailed(f"{leader.name} ended with code {code} after SIGTERM:\n{leader.log_tail()}")
        await leader.start()
        return f"{leader.name} ended after {seconds:.1f} s"

    async def _failpoint(self, fault: Fault) -> str:
        leader = await self._leader()
        armed = self._other(leader)
        await armed.kill()
        await armed.start(fault.detail, wait=False)
        if not fault.detail.startswith("publish."):  # the leader relays, and is the first to find due work
            await asyncio.sleep(1.0)
            await leader.kill()
            await leader.start()
        try:
            await armed.ended(_REACHED_SECONDS_MAX)
            note = f"{armed.name} died there"
        except TimeoutError:
            note = f"{armed.name} did not get there"
            await armed.kill()
        await armed.start()
        return note

    async def _database(self, fault: Fault) -> str:
        pid = recorded_pid(self._cluster)
        assert pid is not None, "the database of the scenario runs"
        began = time.monotonic()
        os.kill(pid, signal.Signals[fault.detail])
        # Until the old server has ended it may still answer, and would be taken for the new one.
        await _until(lambda: not _lives(pid), 10.0)
        await self._postgres.start()
        answers = time.monotonic() - began
        before = self._scenario.accepted
        await _until(lambda: self._scenario.accepted > before, 5.0)
        return f"answers after {answers:.1f} s, accepts after {time.monotonic() - began:.1f} s"

    async def _unbind(self, _: Fault) -> str:
        self._broker.bound = False
        try:
            await asyncio.sleep(_UNBOUND_SECONDS)
        finally:
            self._broker.bound = True
        return f"for {_UNBOUND_SECONDS:g} s"

    async def _disconnect(self, _: Fault) -> str:
        self._broker.cut()
        await asyncio.sleep(0.5)
        return ""


async def _until(condition: Callable[[], bool], seconds_max: float) -> bool:
    """Wait until the condition holds, for at most ``seconds_max``; return whether it does. Check it every ten
    milliseconds.
    """
    deadline = time.monotonic() + seconds_max
    while not (holds := condition()) and time.monotonic() < deadline:  # noqa: ASYNC110 - no event reports it
        await asyncio.sleep(0.01)
    return holds


def _lives(pid: int) -> bool:
    """Return whether the process still runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
