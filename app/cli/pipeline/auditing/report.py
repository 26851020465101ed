"""The report of ``hookwire pipeline audit``: the figures of all comparisons, and their print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from runtime.counted import counted

if TYPE_CHECKING:
    from app.checks.ledger import LedgerReport
    from app.cli.pipeline.auditing.omissions import DeletedDays
    from pipeline.audit.inquiry import Cell, Finding

__all__ = ["AuditReport", "print_report"]

_NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The results of all comparisons. ``unjudged`` cells could not be compared event by event.

    * ``remembered``: records in days that an earlier audit proved and that have not changed; they were not read again.
    * ``outside``: records of the lake in hours that were not judged.
    * ``webhook_hours``: the number of hours whose deliveries were checked.
    * ``unarchived``: offsets that were read from Kafka, because cells differed and the archive has not read them yet.
    * ``lake``: differences between the lake's log, its files, the database and the ledger, and commits of other tools,
      in sentences.
    * ``erased``: events that the lake notes as erased, in the judged hours; ``unconfirmed``: the ids of those of which
      the database knows nothing.
    * ``deleted``: days that were left out, because the lake's log says that retention deleted them.
    * ``unsealed``: records that no seal proves, of events that were accepted before ``sealed_from``. It is None if no
      record has a seal.
    * ``unproved``: cells whose contents the ledger does not know, or whose records were partly erased.
    * ``aged``: records of days that the ledger does not cover, and that no audit has proved. They were not compared.
    * ``confirmed``: days before the ledger's that a person let count as they are, in sentences.
    """

    since: datetime
    until: datetime
    ledger: LedgerReport
    cells: int
    webhook_hours: int
    records: int
    remembered: int
    outside: int
    unarchived: int
    unequal: int
    unproved: int
    unjudged: Sequence[Cell]
    findings: Sequence[Finding]
    lake: Sequence[str] = ()
    erased: int = 0
    unconfirmed: Sequence[str] = ()
    deleted: Sequence[DeletedDays] = ()
    unsealed: int = 0
    sealed_from: datetime | None = None
    aged: int = 0
    confirmed: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing at all was compared."""
        return not self.cells and not self.remembered

    @property
    def unconfirmed_days(self) -> Sequence[DeletedDays]:
        """Return the deleted days of which the database knows nothing."""
        return [days for days in self.deleted if days.verdict == "unconfirmed"]

    @property
    def count(self) -> int:
        """Return the number of rows that an operator should examine."""
        left = len(self.unjudged) + len(self.unconfirmed) + len(self.unconfirmed_days) + self.is_empty
        return self.found + left + sum(not finding.is_judged for finding in self.findings)

    @property
    def found(self) -> int:
        """Return the number of findings, without what could not be judged."""
        different = sum(days.verdict == "different" for days in self.deleted)
        found = sum(finding.is_finding for finding in self.findings)
        return self.ledger.findings + len(self.lake) + different + found

    @property
    def exit_code(self) -> int:
        """Return the exit code; it is 0 only if everything was compared."""
        return 1 if self.found else 2 if self.count else 0


def print_report(report: AuditReport) -> None:
    """Print the findings as a table, if there are any, and a line that sums up."""
    from rich.markup import escape

    from app.cli.table import console, show

    if report.findings or report.unjudged:
        rows = [
            (found.fault, *_place(found), f"{found.count:,}", " ".join(found.examples)) for found in report.findings
        ]
        for cell in report.unjudged:
            detail = f"{cell.owed:,} accepted, {cell.records:,} in the lake; the events are gone or too many"
            rows.append(("unjudged", *_place(cell), "", detail))
        show(("Finding", "Topic", "Hour", "Count", "Events"), rows, folds=("Topic", "Events"))
    for difference in report.lake:
        console().print(f"finding: {escape(difference)}")
    for days in report.deleted:
        word = {"confirmed": "left out", "different": "finding"}.get(days.verdict, days.verdict)
        console().print(f"{word}: {escape(days.sentence)}")
    for confirmed in report.confirmed:
        console().print(f"confirmed: {escape(confirmed)}")
    if report.aged:
        console().print(
            f"left out: {counted(report.aged, 'record')} of days before {report.since:%Y-%m-%d}, which the ledger does "
            "not cover and no audit has proved, cannot be compared",
            markup=False, highlight=False,
        )  # fmt: skip
    if report.is_empty:
        console().print("unjudged: nothing was compared: the ledger has no event for Kafka in these hours")
    if report.unconfirmed:
        console().print(
            f"unconfirmed: the lake notes {counted(len(report.unconfirmed), 'event')} as erased, and the database "
            f"does not know of that: {' '.join(report.unconfirmed[:_NAMED_MAX])}. If you erased them, run "
            "`hookwire pipeline erase --confirm`",
            markup=False, highlight=False,
        )  # fmt: skip
    if report.unsealed:
        before = f"accepted before {report.sealed_from:%Y-%m-%d %H:%M:%S} UTC" if report.sealed_from else "all of them"
        console().print(
            f"unproved: {counted(report.unsealed, 'record')} without a seal of this installation, {before}: only what "
            "the ledger knows of them is proved",
            markup=False, highlight=False,
        )  # fmt: skip
    hours = f"{report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC"
    console().print(
        f"{counted(report.records, 'record')} in {counted(report.cells, 'cell')} from {hours}, "
        f"{report.unequal} of them unequal; "
        f"{counted(report.remembered, 'record')} of days that were proved before; "
        f"{report.erased:,} erased, {len(report.unconfirmed):,} of them unconfirmed; "
        f"contents of {report.unproved} unproved; {counted(report.outside, 'record')} of other hours; "
        f"deliveries of {counted(report.webhook_hours, 'hour')}; "
        f"{counted(sum(days.events for days in report.deleted), 'event')} of deleted days left out; "
        f"{counted(report.aged, 'record')} of days before the ledger's left out; "
        f"{counted(len(report.lake), 'finding')} of the lake's log; "
        f"{counted(report.ledger.findings, 'finding')} of the ledger (hookwire doctor --ledger); {report.count} in all",
    )


def _place(thing: Any) -> tuple[str, str]:
    subscription = getattr(thing, "subscription", None)
    return f"{thing.topic} to {subscription}" if subscription else thing.topic, f"{thing.hour:%Y-%m-%d %H}:00"
