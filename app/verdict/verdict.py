"""Verdict: the judgement about each part and about the whole. Pure data, the same for all that print it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from app.verdict.facts import COUNTED_MAX, Facts

__all__ = ["STATES", "Part", "PartKind", "PartState", "Verdict", "Word"]

PartKind = Literal[
    "sink", "source", "hold", "subscription", "deliveries", "dead_letters", "queue", "task", "job", "service", "lake",
    "backfill", "facts",
]  # fmt: skip
PartState = Literal["down", "held", "failing", "slow", "behind", "late", "dead", "paused", "disabled", "unfetched",
                    "unknown", "absent", "ok"]  # fmt: skip
Word = Literal["ok", "attention", "trouble"]

STATES: Final[dict[PartState, Word]] = {
    "down": "trouble", "held": "trouble", "failing": "trouble", "slow": "trouble", "behind": "trouble",
    "late": "trouble", "dead": "trouble", "paused": "attention", "disabled": "attention", "unfetched": "attention",
    "unknown": "attention", "absent": "ok", "ok": "ok",
}  # fmt: skip
"""What each state of a part makes of the whole; the first state is the most urgent."""
_URGENCY: Final = tuple(STATES)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that can wait, fail or stop. ``reason`` is a sentence without its full stop.

    ``since`` is when the state began, where that is known. ``waiting``, ``running`` and ``dead`` are counted up to
    ``bound``. ``topic`` is the topic or pattern that a key must reach to see it; None: a key for all topics.
    """

    kind: PartKind
    name: str
    state: PartState
    reason: str
    since: datetime | None = None
    waiting: int = 0
    running: int = 0
    dead: int = 0
    oldest_at: datetime | None = None
    topic: str | None = None
    bound: int = COUNTED_MAX

    @property
    def word(self) -> Word:
        """Return what this part makes of the whole."""
        return STATES[self.state]

    @property
    def sentence(self) -> str:
        """Return the reason with the name of the part."""
        return f"{self.kind.replace('_', ' ')} {self.name}: {self.reason}".replace("  ", " ")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The parts, the most urgent first, and the facts behind them."""

    facts: Facts
    parts: Sequence[Part]

    @property
    def word(self) -> Word:
        """Return ok, attention (something stands still as intended, or is unknown) or trouble (something is wrong)."""
        words = {part.word for part in self.parts}
        return "trouble" if "trouble" in words else "attention" if "attention" in words else "ok"

    @property
    def findings(self) -> Sequence[Part]:
        """Return the parts that are not as they should be."""
        return [part for part in self.parts if part.word != "ok"]

    def of(self, *kinds: PartKind) -> Sequence[Part]:
        """Return the parts of these kinds."""
        return [part for part in self.parts if part.kind in kinds]

    def only(self, is_visible: Callable[[Part], bool]) -> Verdict:
        """Return the verdict on some of the parts."""
        return replace(self, parts=[part for part in self.parts if is_visible(part)])

    @classmethod
    def on(cls, facts: Facts, parts: Sequence[Part]) -> Verdict:
        """Return the verdict on these parts, sorted by urgency, age and name."""
        return cls(facts, sorted(parts, key=lambda part: (_URGENCY.index(part.state), _age_key(part), part.name)))


def _age_key(part: Part) -> float:
    since = part.since or part.oldest_at
    return since.timestamp() if since is not None else float("inf")
