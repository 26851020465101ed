"""The table of runs: one small file for each run, with its counts and the version that ran."""

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

__all__ = ["Run", "newest_runs", "recorded_run", "runs"]


@dataclass(slots=True)
class Run:
    """A run of a job. ``state`` is running, done, findings or failed. ``counts`` depend on the job.

    A run in the state running was killed if its process does not exist any more. Times are ISO 8601 in UTC. ``error``
    is one sentence about the failure.
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
        """Return the path of the run's file; the names sort by time."""
        return f"runs/{self.started_at[:19].replace(':', '')}-{self.job}-{self.id}.json"


@contextmanager
def recorded_run(lake: LakeStorage, job: str, inputs: Mapping[str, Any]) -> Iterator[Run]:
    """Store the run at its start and at its end, even if it fails. The job fills in ``counts``."""
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
    """Return all runs, newest first. Files that are incomplete or hold no run are left out."""
    found = (_read(lake, path) for path in sorted(lake.files("runs"), reverse=True))
    return [run for run in found if run is not None]


def newest_runs(lake: LakeStorage) -> dict[str, Run]:
    """Return the newest run of each job. Their names tell the job, so that only these files are read."""
    paths: dict[str, str] = {}
    for path in sorted(lake.files("runs")):
        _, _, job = path.rpartition("/")[2].rpartition("-")[0].partition("T")[2].partition("-")
        paths[job] = path
    found = [_read(lake, path) for path in paths.values()]
    return {run.job: run for run in found if run is not None}


def _read(lake: LakeStorage, path: str) -> Run | None:
    try:
        return Run(**json.loads(lake.read(path)))
    except (ValueError, TypeError):
        return None


def _write(lake: LakeStorage, run: Run) -> None:
    lake.replace(run.path, json.dumps(asdict(run)).encode())
