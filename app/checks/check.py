"""Check: one question about this installation, with its answer and its cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.settings.settings import Settings

__all__ = ["Check", "ChecksRefused", "Level", "stricter_in_production"]

Level = Literal["ok", "note", "warn", "refuse", "unreachable"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``id``: a stable name for scripts; ``cure`` is empty where nothing has to be done."""

    id: str
    subject: str
    level: Level
    detail: str
    cure: str = ""

    @property
    def is_finding(self) -> bool:
        """Return whether an operator should act."""
        return self.level in ("warn", "refuse", "unreachable")

    def sentence(self) -> str:
        """Return the check as a sentence for logs and refusals."""
        return f"{self.subject}: {self.detail}" + (f"; {self.cure}" if self.cure else "")


class ChecksRefused(Exception):
    """The service must not start like this; one line per reason, each with its cure."""

    def __init__(self, checks: list[Check]) -> None:
        super().__init__("refusing to start\n" + "\n".join(f"  {check.sentence()}" for check in checks))


def stricter_in_production(settings: Settings) -> Level:
    """Return ``refuse`` in production, ``warn`` in development."""
    return "refuse" if settings.profile == "production" else "warn"
