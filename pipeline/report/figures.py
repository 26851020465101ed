"""Figures: the data of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["AttemptCounts", "Figures", "burn", "summary"]


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """One hour of attempts at webhooks; ``seconds`` are the 50th, 95th and 99th percentile of their duration."""

    hour: datetime
    attempts: int
    good: int
    retries: int
    dead: int
    seconds: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """The data of one report.

    ``volume``: records of each Kafka topic by hour. ``failing``: the subscriptions of gold whose attempts failed.
    ``audit``: the output of `audit --json`, or None.
    """

    since: datetime
    until: datetime
    made_at: datetime
    volume: Mapping[str, Mapping[datetime, int]]
    attempts: Sequence[AttemptCounts]
    anomalies: Sequence[Mapping[str, Any]]
    failing: Sequence[Mapping[str, Any]]
    audit: Mapping[str, Any] | None
    target: float = 0.99


def burn(attempts: Sequence[AttemptCounts], target: float) -> list[tuple[datetime, float]]:
    """Return the used part of the error budget after each hour; above 1 the budget is overdrawn (PL-04).

    The budget is the share of all attempts in the report's time span that may fail.
    """
    budget = (1 - target) * sum(hour.attempts for hour in attempts)
    used, points = 0, []
    for hour in sorted(attempts, key=lambda each: each.hour):
        used += hour.attempts - hour.good
        points.append((hour.hour, used / budget if budget else 0.0))
    return points


def summary(figures: Figures) -> dict[str, Any]:
    """Return the figures of the page's tiles and the findings. All values but times can be written as JSON."""
    attempts, good = sum(a.attempts for a in figures.attempts), sum(a.good for a in figures.attempts)
    used = burn(figures.attempts, figures.target)
    return {
        "since": figures.since,
        "until": figures.until,
        "records": {topic: sum(hours.values()) for topic, hours in figures.volume.items()},
        "attempts": attempts,
        "delivered": good,
        "retries": sum(a.retries for a in figures.attempts),
        "dead": sum(a.dead for a in figures.attempts),
        "target": figures.target,
        "budget_used": used[-1][1] if used else None,
        "anomalies": list(figures.anomalies),
        "failing": list(figures.failing),
        "audit_findings": None if figures.audit is None else figures.audit["count"],
    }
