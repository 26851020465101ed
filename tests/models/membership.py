"""A model of members on different hosts: B and C may take over a claim of A, which has no order.

A has a session lock on its number, and a row. It trusts its membership for a while after each answered heartbeat. Its
session may be cut while it lives, and it comes back then. It may be stopped and woken, or killed. B and C look at the
locks when they like. Time goes by in steps that all share.

A request that had begun before A was stopped cannot be called back. Everything else of A ends before B or C begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = ["MemberModel", "MemberRules"]

_TRUST: Final = 1
"""For so many seconds A trusts its membership. It stands in A's row."""
_ABORT: Final = 1
_MARGIN: Final = 1
_LAST: Final = 5
_NEVER: Final = 99
_OTHERS: Final = (0, 1)


@dataclass(frozen=True, slots=True)
class MemberRules:
    """The rules. The defaults are right; each other value is a mistake.

    ``trusts_from``: whether trust begins with the question of a heartbeat or with its answer. ``trust_ends``: whether
    A aborts, and sends nothing, when its trust is over. ``waits``: how long others wait once they have seen the lock
    free. ``comes_back_as``: the number that A locks after its session was cut. ``asks_for_row``: when A comes back, it
    keeps its claims only if its row was still there. ``deletes_row``: who takes over deletes the row of A.
    ``aborts_alone``: a process without others aborts. ``death_by``: what proves a death at once.
    """

    trusts_from: Literal["question", "answer"] = "question"
    trust_ends: bool = True
    waits: Literal["stored trust", "nothing"] = "stored trust"
    comes_back_as: Literal["another", "the same"] = "another"
    asks_for_row: bool = True
    deletes_row: bool = True
    fences_settlements: bool = True
    aborts_alone: bool = False
    death_by: Literal["nothing", "pid"] = "nothing"


class _State(NamedTuple):
    """``beat_at`` is when A has asked. ``freed_at``: its lock is free since then. ``seen``: when B and C saw that."""

    now: int = 0
    process: Literal["runs", "stopped", "ended"] = "runs"
    has_slept: bool = False
    trusted_until: int = _TRUST
    is_kept: bool = False
    beat_at: int | None = None
    is_answered: bool = False
    freed_at: int = _NEVER
    has_row: bool = True
    request: Literal["none", "in flight", "aborted", "answered"] = "none"
    is_stored: bool = False
    seen: tuple[int | None, int | None] = (None, None)
    takers: tuple[int, ...] = ()
    fault: str = ""


class MemberModel:
    """The model. See the module. ``is_alone``: there is neither B nor C, and A knows it."""

    def __init__(self, rules: MemberRules, *, is_alone: bool = False) -> None:
        self._rules = rules
        self._is_alone = is_alone

    def start(self) -> _State:
        """A has claimed, and has sent nothing."""
        return _State(is_kept=self._is_alone)

    def steps(self, state: _State) -> Iterator[tuple[str, _State]]:
        """Yield what may happen next."""
        yield from self._world(state)
        if state.process == "runs":
            yield from self._a(state)
            yield from self._a_sends(state)
        if not self._is_alone:
            for other in _OTHERS:
                yield from self._other(state, other)

    def broken(self, state: _State) -> str:
        """Return the rule that is broken; empty: none."""
        if len(state.takers) > 1:
            return "two have taken over"
        if self._is_alone and state.request == "aborted":
            return "a repeat that nothing asked for"
        return state.fault

    # --- the world ---

    def _world(self, state: _State) -> Iterator[tuple[str, _State]]:
        is_late = self._has_to_abort(state) and state.now >= state.trusted_until + _ABORT
        if state.now < _LAST and not (is_late and state.process == "runs" and self._rules.trust_ends):
            yield "a second goes by", state._replace(now=state.now + 1)
        if state.freed_at == _NEVER and state.process != "ended":
            yield "the session of A is cut", state._replace(freed_at=state.now)
        if state.beat_at is not None and not state.is_answered and state.freed_at == _NEVER:
            yield "the heartbeat is answered", state._replace(is_answered=True)
        if state.request == "in flight":
            yield "the receiver answers A", state._replace(request="answered")
        if state.process == "runs" and not state.has_slept:
            yield "A is stopped", state._replace(process="stopped", has_slept=True)
        if state.process == "stopped":
            yield "A is woken", state._replace(process="runs")
        if state.process != "ended" and not self._is_alone:
            yield "A is killed", state._replace(process="ended", freed_at=min(state.freed_at, state.now))

    # --- A ---

    def _is_trusted(self, state: _State) -> bool:
        return state.is_kept or state.now < state.trusted_until or not self._rules.trust_ends

    def _has_to_abort(self, state: _State) -> bool:
        return state.request == "in flight" and not self._is_trusted(state)

    def _a(self, state: _State) -> Iterator[tuple[str, _State]]:
        if state.beat_at is None and state.freed_at == _NEVER:
            yield "A asks by a heartbeat", state._replace(beat_at=state.now)
        elif state.beat_at is not None and state.is_answered:
            since = state.beat_at if self._rules.trusts_from == "question" else state.now
            until = max(state.trusted_until, since + _TRUST)
            yield "A hears the answer", state._replace(beat_at=None, is_answered=False, trusted_until=until)
        if state.freed_at != _NEVER and self._rules.comes_back_as == "the same" and state.has_row:
            yield "A locks its number again", state._replace(freed_at=_NEVER, beat_at=None, is_answered=False)
        elif state.freed_at != _NEVER and not state.is_kept:
            is_kept = state.has_row or not self._rules.asks_for_row
            until = state.trusted_until if is_kept else min(state.trusted_until, state.now)
            yield "A comes back", state._replace(has_row=False, is_kept=is_kept, trusted_until=until)

    def _a_sends(self, state: _State) -> Iterator[tuple[str, _State]]:
        if state.request == "none" and self._is_trusted(state):
            fault = "sent after another had taken over" if state.takers else ""
            yield "A sends", state._replace(request="in flight", fault=fault)
        if self._has_to_abort(state) or (self._is_alone and self._rules.aborts_alone and state.request == "in flight"):
            yield "A aborts", state._replace(request="aborted")
        if state.request == "answered" and not state.is_stored:
            if not state.takers:
                yield "A stores that it is delivered", state._replace(is_stored=True)
            elif not self._rules.fences_settlements:
                yield "A stores late", state._replace(fault="a former owner has stored an end")

    # --- B and C ---

    def _other(self, state: _State, other: int) -> Iterator[tuple[str, _State]]:
        name, seen_at = "BC"[other], state.seen[other]
        is_free = state.freed_at != _NEVER
        found = (state.now if seen_at is None else seen_at) if is_free else None
        if found != seen_at:
            seen = tuple(found if one == other else state.seen[one] for one in _OTHERS)
            yield f"{name} looks at the locks", state._replace(seen=(seen[0], seen[1]))
        wait = _TRUST + _ABORT + _MARGIN if self._rules.waits == "stored trust" else 0
        has_waited = is_free and seen_at is not None and state.now >= seen_at + wait
        is_there = state.has_row or (bool(state.takers) and not self._rules.deletes_row)
        if (
            (has_waited or self._rules.death_by == "pid")
            and is_there
            and not state.is_stored
            and other not in state.takers
        ):
            fault = "two at once" if self._is_in_the_way(state) else ""
            takers = (*state.takers, other)
            yield f"{name} takes over and sends", state._replace(has_row=False, takers=takers, fault=fault)

    def _is_in_the_way(self, state: _State) -> bool:
        """Return whether a request of A is in flight that could have been aborted."""
        return state.request == "in flight" and state.process == "runs" and not state.has_slept
