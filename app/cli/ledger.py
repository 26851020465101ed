"""``hookwire doctor --ledger``: the report of the ledger, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from app.cli.entry import say
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from app.checks.ledger import LedgerCell, LedgerReport

__all__ = ["ledger"]


async def ledger(settings: Settings, as_json: bool) -> int:
    """Compare the ledger, print the report and return the exit code. Raises ``DatabaseError`` and ``EmbeddedError``."""
    report = await _report(settings)
    if as_json:
        say(json.dumps(asdict(report), default=lambda moment: moment.isoformat()))
    else:
        _print(report)
    return 1 if report.findings else 0


async def _report(settings: Settings) -> LedgerReport:
    from app.assembly.storage import incarnation_of
    from app.checks.ledger import compare_ledger
    from app.cli.database import opened_connection

    async with opened_connection(settings) as connection:
        return await compare_ledger(connection, await incarnation_of(connection))


def _print(report: LedgerReport) -> None:
    from app.cli.table import console, show

    if report.unequal:
        heads = ("Sink", "Topic", "Hour", "Ids", "Owed", "Sent", "Dead", "Waiting", "Verdict")
        show(heads, [_row(cell) for cell in report.unequal], folds=("Topic", "Verdict"))
    if report.is_behind:
        console().print("[red]behind[/]: no process has folded the ledger for two hours; let a hookwire process run")
    console().print(
        f"{counted(report.accepted, 'event')} accepted in closed hours since {report.since_at:%Y-%m-%d %H:%M} (judged "
        f"until {report.through_at:%Y-%m-%d %H:%M} UTC): {report.owed:,} owed to sinks, {report.sent:,} sent, "
        f"{report.dead:,} dead; {counted(report.findings, 'finding')}",
    )


def _row(cell: LedgerCell) -> Sequence[str]:
    missing = f" {cell.missing}" if cell.verdict == "lost" else ""
    event = f": {cell.missing_event}" if cell.missing_event else ""
    return (
        cell.sink, cell.topic, f"{cell.hour:%Y-%m-%d %H}:00", f"{cell.bucket} mod 4", f"{cell.owed:,}",
        f"{cell.sent:,}", f"{cell.dead:,}", f"{cell.waiting:,}", f"{cell.verdict}{missing}{event}",
    )  # fmt: skip
