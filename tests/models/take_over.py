"""A model of two workers of one ordered lane: B takes over what A has claimed, and A may not know that it is over.

A holds a session lock, and trusts its membership for a while after each answered heartbeat. After a crash restart of
PostgreSQL all locks are free, though nobody died, and packets to A may be late. A may be stopped and woken, or killed.
Time goes by in steps that both share.

The lane has the events 1 and 2. A has claimed the first under a lease, and its bytes may be on the way. A receiver ends
its work on a copy at any time within the lease. The order that counts is that of these ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = ["TakeOver", "TakeOverRules"]

_TRUST: Final = 2
"""For so many seconds A trusts its membership. It stands in A's row."""
_ABORT: Final = 1
_MARGIN: Final = 1
_LEASE: Final = 6
_LAST: Final = 7
_NEVER: Final = 99

Copy = tuple[Literal["A", "B"], int]
"""A request: who has sent it, and the event."""


@dataclass(frozen=True, slots=True)
class TakeOverRules:
    """The rules. The defaults are right; each other value is a mistake.

    ``trusts_from``: whether trust begins with the question of a heartbeat or with its answer. ``waits``: how long
    others wait once A's lock is free. ``clock``: whether time goes on for a stopped process. ``head_keeps_lease``: a
    head whose bytes may be on the way waits for the end of its lease. ``death_by``: what proves a death on the same
    host. ``aborts_alone``: whether a process without others sends again what was in flight.
    """

    trusts_from: Literal["question", "answer"] = "question"
    waits: Literal["stored trust", "nothing"] = "stored trust"
    clock: Literal["goes on", "stands"] = "goes on"
    head_keeps_lease: bool = True
    fences_settlements: bool = True
    death_by: Literal["lock file", "pid"] = "lock file"
    aborts_alone: bool = False


class _Beat(NamedTuple):
    """A heartbeat of A, asked at that time. ``is_answered``: the answer is on its way."""

    asked_at: int
    is_answered: bool = False


class _State(NamedTuple):
    """``slept``: for how long A was stopped, where its clock stands then. ``freed_at``: A's lock is free since then.

    ``begun`` and ``ended`` are requests as the receiver sees them. A's may end until the lease does.
    """

    now: int = 0
    process: Literal["runs", "stopped", "ended"] = "runs"
    slept: int = 0
    trusted_until: int = _TRUST
    beat: _Beat | None = None
    freed_at: int = _NEVER
    owner: Literal["A", "B"] = "A"
    settled: int = 0
    begun: tuple[Copy, ...] = ()
    ended: tuple[Copy, ...] = ()
    fault: str = ""


class TakeOver:
    """The model. See the module. ``is_alone``: there is no B."""

    def __init__(self, rules: TakeOverRules, *, is_alone: bool = False) -> None:
        self._rules = rules
        self._is_alone = is_alone

    def start(self) -> _State:
        """A has claimed the first event, under a lease of some seconds."""
        return _State()

    def steps(self, state: _State) -> Iterator[tuple[str, _State]]:
        """Yield what may happen next."""
        yield from self._world(state)
        if state.process == "runs":
            yield from self._a(state)
        if not self._is_alone:
            yield from self._b(state)

    def broken(self, state: _State) -> str:
        """Return the rule that is broken; empty: none."""
        if state.fault:
            return state.fault
        events = [event for _, event in state.ended]
        if events != sorted(events):
            return f"an inversion: the receiver ended {state.ended}"
        if self._is_alone and state.begun.count(("A", 1)) > 1:
            return "a repeat that nothing asked for"
        return ""

    # --- the world ---

    def _world(self, state: _State) -> Iterator[tuple[str, _State]]:
        under_way = [copy for copy in dict.fromkeys(state.begun) if copy not in state.ended]
        is_late = any(sender == "B" or state.now >= _LEASE for sender, _ in under_way)
        if state.now < _LAST and not is_late:
            is_standing = state.process == "stopped" and self._rules.clock == "stands"
            yield "a second goes by", state._replace(now=state.now + 1, slept=state.slept + is_standing)
        for sender, event in under_way:
            yield f"the receiver ends {event} of {sender}", state._replace(ended=(*state.ended, (sender, event)))
        if state.freed_at == _NEVER:
            yield "PostgreSQL restarts: all locks are free", state._replace(freed_at=state.now)
        if state.beat is not None and not state.beat.is_answered and state.freed_at == _NEVER:
            yield "the heartbeat is answered", state._replace(beat=state.beat._replace(is_answered=True))
        if state.process == "runs":
            yield "A is stopped", state._replace(process="stopped")
        if state.process == "stopped":
            yield "A is woken", state._replace(process="runs")
        if state.process != "ended" and not self._is_alone:
            yield "A is killed", self._gone(state)

    def _gone(self, state: _State) -> _State:
        """The kernel closes its sockets at once, so its lock is free."""
        return state._replace(process="ended", beat=None, freed_at=min(state.freed_at, state.now))

    # --- A ---

    def _a(self, state: _State) -> Iterator[tuple[str, _State]]:
        if state.beat is None:
            yield "A asks by a heartbeat", state._replace(beat=_Beat(state.now))
        elif state.beat.is_answered:
            since = state.beat.asked_at if self._rules.trusts_from == "question" else state.now
            until = max(state.trusted_until, since + _TRUST)
            yield "A hears the answer", state._replace(beat=None, trusted_until=until)
        is_trusted = state.now < state.trusted_until + state.slept
        has_sent = ("A", 1) in state.begun
        if (is_trusted or self._is_alone) and not has_sent and state.now < _LEASE:
            yield "A sends 1", state._replace(begun=(*state.begun, ("A", 1)))
        if not is_trusted and not self._is_alone:
            yield "A ends itself", self._gone(state)
        if self._is_alone and self._rules.aborts_alone and not is_trusted and has_sent and state.settled == 0:
            yield "A aborts 1, and sends it again", state._replace(begun=(*state.begun, ("A", 1)))
        if ("A", 1) in state.ended and state.settled == 0:
            yield "A stores that 1 is delivered", self._stored(state)

    def _stored(self, state: _State) -> _State:
        """Its fence is over once B has the lane."""
        if state.owner == "A":
            return state._replace(settled=1)
        return state if self._rules.fences_settlements else state._replace(fault="a former owner has stored an end")

    # --- B ---

    def _b(self, state: _State) -> Iterator[tuple[str, _State]]:
        if state.owner == "A":
            if self._is_proved(state) or self._has_waited(state):
                yield "B takes the lane over", state._replace(owner="B")
            return
        may_be_on_way = ("A", 1) in state.begun and self._rules.head_keeps_lease
        if state.settled == 0 and ("B", 1) not in state.begun and (not may_be_on_way or state.now > _LEASE):
            yield "B sends 1", state._replace(begun=(*state.begun, ("B", 1)))
        if state.settled == 0 and ("B", 1) in state.ended:
            yield "B stores that 1 is delivered", state._replace(settled=1)
        if state.settled == 1 and ("B", 2) not in state.begun:
            yield "B sends 2", state._replace(begun=(*state.begun, ("B", 2)))

    def _is_proved(self, state: _State) -> bool:
        """Return whether B, on the same host, holds A's death for proved. A pid says nothing of another container."""
        return state.process == "ended" if self._rules.death_by == "lock file" else True

    def _has_waited(self, state: _State) -> bool:
        wait = _TRUST + _ABORT + _MARGIN if self._rules.waits == "stored trust" else 0
        return state.now >= state.freed_at + wait
