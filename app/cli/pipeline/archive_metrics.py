"""An archive's figures for the textfile collector of Prometheus' node exporter (FP-14)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from pipeline.archive import Archived

__all__ = ["ArchiveMetrics"]


class ArchiveMetrics:
    """``file``: None writes nothing. One object for each run of the command."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._round_began = time.monotonic()
        self._rows_before = 0

    def begin_round(self, done: Archived) -> None:
        """The archive looks at Kafka now, with so much done before."""
        self._round_began, self._rows_before = time.monotonic(), done.rows

    def write(self, done: Archived) -> None:
        """Put the file in the place of the last one at once. Raises ``CommandFailed``."""
        if self._file is None:
            return
        from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

        registry = CollectorRegistry()
        seconds = max(time.monotonic() - self._round_began, 0.001)
        for name, text, value in (
            ("lag_offsets", "Offsets that were committed in Kafka and not archived when it last looked.", done.waiting),
            ("records", "Records that this run has archived.", done.rows),
            ("quarantined_records", "Records of them with which something is wrong.", done.quarantined),
            ("records_per_second", "How fast its last round was.", (done.rows - self._rows_before) / seconds),
            ("findings", "Partitions that it could not read on, or that lost records.", done.findings),
            ("timestamp_seconds", "When it last looked at Kafka, or committed.", time.time()),
        ):
            Gauge(f"hookwire_archive_{name}", text, registry=registry).set(value)
        try:
            write_to_textfile(str(self._file), registry)
        except OSError as error:
            raise CommandFailed(f"cannot write {self._file}: {error}", 2) from None
