"""What ``hookwire pipeline audit`` found: every comparison's figures, as a value and as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.checks.ledger import LedgerReport
    from pipeline.audit.inquiry import Cell, Finding

__all__ = ["AuditReport", "print_report"]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What all comparisons found. ``unjudged`` cells could not be looked at event by event.

    ``outside``: records of the lake in hours that were not judged. ``webhook_hours``: of how many hours deliveries were
    accounted for. ``unarchived``: offsets of Kafka that were read as well, because the archive has not come so far and
    cells differed. ``unproved``: cells whose contents the ledger does not know, or of which records were erased.
    """

    since: datetime
    until: datetime
    ledger: LedgerReport
    cells: int
    webhook_hours: int
    records: int
    outside: int
    unarchived: int
    unequal: int
    unproved: int
    unjudged: Sequence[Cell]
    findings: Sequence[Finding]

    @property
    def count(self) -> int:
        """How many rows somebody should look at."""
        return self.found + len(self.unjudged)

    @property
    def found(self) -> int:
        """The findings among them, without what could not be judged."""
        return self.ledger.findings + sum(finding.is_finding for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 only where everything was compared (PL-A09)."""
        return 1 if self.found else 2 if self.unjudged else 0


def print_report(report: AuditReport) -> None:
    """The findings as a table, if there are any, and one line that sums up."""
    from rich.markup import escape

    from app.cli.table import console, table

    if report.findings or report.unjudged:
        rows = table(("Finding", "Topic", "Hour", "Count", "Events"), folds=("Topic", "Events"))
        for found in report.findings:
            name = f"[red]{found.fault}[/]" if found.is_finding else found.fault
            rows.add_row(name, *_place(found), f"{found.count:,}", escape(" ".join(found.examples)))
        for cell in report.unjudged:
            detail = f"{cell.owed:,} accepted, {cell.records:,} in the lake; the events are gone or too many"
            rows.add_row("[red]unjudged[/]", *_place(cell), "", detail)
        console().print(rows)
    hours = f"{report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC"
    console().print(
        f"{report.records:,} records in {report.cells:,} cells from {hours}, {report.unequal} of them unequal; "
        f"contents of {report.unproved} unproved; {report.outside:,} records of other hours; "
        f"deliveries of {report.webhook_hours} hours; "
        f"{report.ledger.findings} findings of the ledger (hookwire doctor --ledger); {report.count} in all",
        soft_wrap=True,
    )


def _place(thing: Any) -> tuple[str, str]:
    from rich.markup import escape

    subscription = getattr(thing, "subscription", None)
    return escape(f"{thing.topic} to {subscription}" if subscription else thing.topic), f"{thing.hour:%Y-%m-%d %H}:00"
