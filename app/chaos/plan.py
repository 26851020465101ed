"""A plan of faults from a seed: the faults, their targets, times and lengths (HN-02, OR-07). Pure.

Every run begins with one fault of each indispensable kind, shuffled. Then come the others, then random ones. The same
seed and length give the same plan.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["INDISPENSABLE", "Fault", "FaultKind", "make_plan"]


class FaultKind(StrEnum):
    """The kind of a fault."""

    KILL = "kill"
    """SIGKILL to the leader, which is started again at once."""
    TAKE_OVER = "take over"
    """SIGSTOP to the leader until another leads, SIGCONT; then SIGKILL to its successor (F05)."""
    DRAIN = "drain"
    """SIGTERM to the leader: exit code 0 within ten seconds (F08)."""
    FAILPOINT = "fail point"
    """The leader dies at a step of the walk (F01-F03)."""
    DATABASE = "database"
    """SIGKILL to PostgreSQL's first process, or an immediate stop; started again (F11)."""
    UNBIND = "unbind"
    """For a while no queue takes the exchange's messages (F26)."""
    DISCONNECT = "disconnect"
    """The AMQP broker drops every connection (F24)."""


INDISPENSABLE = (FaultKind.KILL, FaultKind.TAKE_OVER, FaultKind.FAILPOINT, FaultKind.DATABASE, FaultKind.UNBIND)
"""Kinds that are part of every run, because a broken product could pass without them. A run on a slow machine takes
longer instead.
"""

_SECONDS = {
    FaultKind.KILL: 2.5,
    FaultKind.TAKE_OVER: 7.5,
    FaultKind.DRAIN: 2.5,
    FaultKind.FAILPOINT: 5.0,
    FaultKind.DATABASE: 3.0,
    FaultKind.UNBIND: 1.5,
    FaultKind.DISCONNECT: 1.0,
}
"""The approximate time of a fault with its healing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. ``detail`` is the fail point and the number of its passing, or the way in which the database ends."""

    at_seconds: float
    kind: FaultKind
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.detail}".strip()


def make_plan(seed: int, seconds: float, failpoints: Sequence[str]) -> list[Fault]:
    """Return faults one after the other; after the indispensable ones only those that end within ``seconds``.

    Times count from the end of the baseline.
    """
    chance = random.Random(f"{seed}/plan")  # noqa: S311 - repeatable, not secret
    plan: list[Fault] = []
    at_seconds = 0.0
    for kind in _kinds(chance):
        if len(plan) >= len(INDISPENSABLE) and at_seconds + _SECONDS[kind] > seconds:
            return plan
        plan.append(Fault(at_seconds, kind, _detail(kind, chance, failpoints)))
        at_seconds += _SECONDS[kind]
    return plan


def _kinds(chance: random.Random) -> Iterator[FaultKind]:
    # A hold would stop a former leader by itself, so the test of its term comes while nothing is held.
    first = [kind for kind in INDISPENSABLE if kind is not FaultKind.TAKE_OVER]
    others = [kind for kind in FaultKind if kind not in INDISPENSABLE]
    chance.shuffle(first)
    chance.shuffle(others)
    deck = [FaultKind.TAKE_OVER, *first, *others]
    yield from deck
    while True:
        yield chance.choice(deck)


def _detail(kind: FaultKind, chance: random.Random, failpoints: Sequence[str]) -> str:
    if kind is FaultKind.FAILPOINT:
        return f"{chance.choice(failpoints)}:kill@{chance.randint(1, 8)}"
    if kind is FaultKind.DATABASE:
        return chance.choice(["SIGKILL", "SIGQUIT"])
    return ""
