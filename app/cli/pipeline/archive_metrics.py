"""Metrics of an archive, for the textfile collector of Prometheus' node exporter (FP-14)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from pipeline.archive import Archived

__all__ = ["ArchiveMetrics"]


class ArchiveMetrics:
    """The metrics of one run of the command. If ``file`` is None, nothing is written."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._round_began = time.monotonic()
        self._rows_before = 0

    def begin_round(self, done: Archived) -> None:
        """Note the start of a round, and the counts of the rounds before."""
        self._round_began, self._rows_before = time.monotonic(), done.rows

    def write(self, done: Archived) -> None:
        """Replace the file in one step. Raises ``CommandFailed`` if it cannot be written."""
        if self._file is None:
            return
        from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

        registry = CollectorRegistry()
        seconds = max(time.monotonic() - self._round_began, 0.001)
        for name, text, value in (
            ("lag_offsets", "Offsets that Kafka has committed and the archive has not read.", done.waiting),
            ("records", "Records that this run has archived.", done.rows),
            ("quarantined_records", "Archived records that have a fault.", done.quarantined),
            ("records_per_second", "Records per second of the last round.", (done.rows - self._rows_before) / seconds),
            ("findings", "Partitions that could not be read further, or that lost records.", done.findings),
            ("timestamp_seconds", "Time of the last read of Kafka, or of the last commit.", time.time()),
        ):
            Gauge(f"hookwire_archive_{name}", text, registry=registry).set(value)
        try:
            write_to_textfile(str(self._file), registry)
        except OSError as error:
            raise CommandFailed(f"cannot write {self._file}: {error}", 2) from None
