"""The table of runs: one small file for each, so that anybody can see what was done to the lake and by which code."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from pipeline.storage import LakeStorage

__all__ = ["Run", "recorded_run", "runs"]


@dataclass(slots=True)
class Run:
    """``state``: running (or killed, if its process is gone), done, findings, failed. ``counts`` are the job's own.

    Times are ISO 8601 in UTC. ``error`` is the one sentence of a run that failed.
    """

    id: str
    job: str
    inputs: Mapping[str, Any]
    started_at: str
    code: str
    state: str = "running"
    seconds: float | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def path(self) -> str:
        """Sorted by time."""
        return f"runs/{self.started_at[:19].replace(':', '')}-{self.job}-{self.id}.json"


@contextmanager
def recorded_run(lake: LakeStorage, job: str, inputs: Mapping[str, Any]) -> Iterator[Run]:
    """Write the run down at its start and at its end, however it ends; the job fills in ``counts``."""
    started = datetime.now(UTC)
    run = Run(secrets.token_hex(4), job, inputs, started.isoformat(), version("hookwire-server"))
    _write(lake, run)
    try:
        yield run
        run.state = "done" if run.state == "running" else run.state
    except BaseException as error:
        run.state, run.error = "failed", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise
    finally:
        run.seconds = round((datetime.now(UTC) - started).total_seconds(), 3)
        _write(lake, run)


def runs(lake: LakeStorage) -> list[Run]:
    """All of them, newest first. A file that is half written or somebody else's is left out."""
    found = []
    for path in sorted(lake.files("runs"), reverse=True):
        try:
            found.append(Run(**json.loads(lake.read(path))))
        except (ValueError, TypeError):
            continue
    return found


def _write(lake: LakeStorage, run: Run) -> None:
    lake.replace(run.path, json.dumps(asdict(run)).encode())
