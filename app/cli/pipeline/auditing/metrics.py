"""Metrics of an audit, for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.report import AuditReport

__all__ = ["write_metrics"]

_FINDINGS = (
    "lost", "phantom", "altered", "misplaced", "unexplained", "duplicated", "repeated", "reordered", "stale term",
    "late", "unaccounted", "contradictory", "deleted", "inserted", "rewritten", "exchanged", "uncounted", "miscounted",
    "unsealed", "sealed with another key",
)  # fmt: skip


def write_metrics(report: AuditReport, file: Path) -> None:
    """Write the metrics; replace the file in one step. Raises ``CommandFailed`` if it cannot be written."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    events = Gauge("hookwire_audit_events", "Events the last audit found, by finding.", ["finding"], registry=registry)
    counts = Counter(dict.fromkeys(_FINDINGS, 0))
    for finding in report.findings:
        counts[finding.fault] += finding.count
    for fault, count in counts.items():
        events.labels(fault).set(count)
    for name, text, value in (
        ("unjudged_cells", "Cells the last audit could not judge.", len(report.unjudged)),
        ("unproved_cells", "Cells whose contents the last audit could not prove.", report.unproved),
        ("unsealed_records", "Records that no seal proves, of before the first seals.", report.unsealed),
        ("erased_events", "Events that the lake notes as erased.", report.erased),
        ("unconfirmed_erasures", "Erasures that the database does not know of.", len(report.unconfirmed)),
        ("left_out_events", "Events of days that retention deleted.", sum(days.events for days in report.deleted)),
        ("unconfirmed_days", "Topics whose deleted days the database does not know of.", len(report.unconfirmed_days)),
        ("ledger_findings", "Cells of the ledger whose sides differ.", report.ledger.findings),
        ("lake_findings", "Differences between the lake's log, its files and the database.", len(report.lake)),
        ("records", "Records of the lake the last audit compared.", report.records),
        ("remembered_records", "Records of days that were proved before.", report.remembered),
        ("outside_records", "Records of the lake in hours the last audit did not judge.", report.outside),
        ("aged_records", "Records of days that the ledger does not cover and no audit has proved.", report.aged),
        ("until_timestamp_seconds", "The end of the hours the last audit judged.", report.until.timestamp()),
        ("timestamp_seconds", "When the last audit ended.", time.time()),
    ):
        Gauge(f"hookwire_audit_{name}", text, registry=registry).set(value)
    try:
        write_to_textfile(str(file), registry)
    except OSError as error:
        raise CommandFailed(f"cannot write {file}: {error}", 2) from None
