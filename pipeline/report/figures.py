"""Figures: the data of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pipeline.report.markup import counted

__all__ = ["SHOWN_MAX", "Endpoint", "Figures", "Job", "LakeAnswers", "Row", "burn", "summary"]

SHOWN_MAX: Final = 200
"""The number of rows of a list without a bound of its own that the page shows."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LakeAnswers:
    """The rows of each query of :mod:`pipeline.report.queries`, and the values of its parameters."""

    parameters: Row
    rows: Mapping[str, Sequence[Row]]

    def __getitem__(self, name: str) -> Sequence[Row]:
        """Return the rows of one query."""
        return self.rows[name]

    @property
    def delivered(self) -> Row | None:
        """Return the latency of all events of all days together; None if none was delivered."""
        found = [row for row in self["latency"] if row["subscription"] is None and row["day"] is None and row["events"]]
        return found[0] if found else None

    def latency(self, *, of_day: bool) -> list[Row]:
        """Return the latency of the slowest endpoints, the slowest first: over all days, or day by day."""
        found = self["latency"]
        return [row for row in found if row["subscription"] is not None and (row["day"] is not None) == of_day]

    def latency_by_day(self) -> list[Row]:
        """Return the latency of all endpoints together, day by day."""
        return [row for row in self["latency"] if row["subscription"] is None and row["day"] is not None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What people call a subscription. ``host`` is that of its callback; None if the subscriber fetches."""

    name: str | None
    host: str | None
    topic: str


@dataclass(frozen=True, slots=True)
class Job:
    """The newest run of a job over the lake: its begin, and how it ended."""

    name: str
    started_at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The data of one report.

    * ``endpoints``: by the id of the subscription; an id that the database does not know any more is absent.
    * ``uncopied``: attempts of these days that the database has and the lake does not have yet.
    * ``audit``: the output of `audit --json` with its times as such, or None.
    * ``last_audit``: what the database notes of the last one.
    """

    since: datetime
    until: datetime
    made_at: datetime
    lake: str
    answers: LakeAnswers
    anomalies: Sequence[Row] = ()
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    jobs: Sequence[Job] = ()
    uncopied: int = 0
    audit: Row | None = None
    last_audit: Row | None = None
    target: float = 0.99

    @property
    def volume(self) -> Mapping[str, Mapping[datetime, int]]:
        """Return the records of the largest Kafka topics by the beginning of the hour or day, and of all others."""
        found: dict[str, dict[datetime, int]] = {}
        for row in self.answers["volume"]:
            name = row["topic"] or counted(row["others"], "other")
            found.setdefault(name, {})[row["at"]] = row["records"]
        return found

    @property
    def subscriptions(self) -> set[str]:
        """Return the ids of the subscriptions that the page names."""
        found = {row["subscription"] for name in ("latency", "reasons", "failing") for row in self.answers[name]}
        audited = () if self.audit is None else self.audit["findings"][:SHOWN_MAX]
        return {each for each in (*found, *(one.get("subscription") for one in audited)) if each}

    def called(self, subscription: str) -> str:
        """Return what people call a subscription: its name, or else the host of its callback."""
        found = self.endpoints.get(subscription)
        return subscription if found is None else found.name or found.host or "fetched by its subscriber"

    @property
    def newest(self) -> Mapping[str, datetime]:
        """Return when the newest event was accepted and the newest attempt began, if there is one."""
        found = {"event": self.answers["newest_event"], "attempt": self.answers["newest_attempt"]}
        return {name: rows[0]["at"] for name, rows in found.items() if rows and rows[0]["at"] is not None}


def burn(attempts: Sequence[Row], target: float) -> list[tuple[datetime, float]]:
    """Return the used part of the error budget after each hour or day; above 1 the budget is overdrawn.

    The budget is the share of all attempts in the report's time span that may fail.
    """
    budget = (1 - target) * sum(row["attempts"] for row in attempts)
    used, points = 0, []
    for row in sorted(attempts, key=lambda each: each["at"]):
        used += row["attempts"] - row["good"]
        points.append((row["at"], used / budget if budget else 0.0))
    return points


def summary(figures: Figures) -> dict[str, Any]:
    """Return the figures of the page. All values but times and days can be written as JSON."""
    attempts = figures.answers["attempts"]
    used = burn(attempts, figures.target)
    return {
        "since": figures.since,
        "until": figures.until,
        "lake": figures.lake,
        "parameters": dict(figures.answers.parameters),
        "records": {topic: sum(of.values()) for topic, of in figures.volume.items()},
        **{name: sum(row[column] for row in attempts) for name, column in _SUMS.items()},
        "target": figures.target,
        "budget_used": used[-1][1] if used else None,
        "newest": dict(figures.newest),
        "uncopied": figures.uncopied,
        **{
            name: [dict(row) for row in figures.answers[name]] for name in ("latency", "lateness", "reasons", "failing")
        },
        "anomalies": list(figures.anomalies),
        "audit_findings": None if figures.audit is None else figures.audit["found"],
    }


_SUMS = {"attempts": "attempts", "delivered": "good", "retries": "retries", "dead": "dead"}
