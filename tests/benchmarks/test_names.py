"""`make bench`: benchmarks/README.md names every benchmark that it runs, and no other."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from benchmarks.__main__ import NAMES, main

README = Path(__file__).parents[2] / "benchmarks" / "README.md"


def test_the_table_has_what_make_bench_runs() -> None:
    """RL-25."""
    rows = re.findall(r"^\| `([a-z]+)` \|", README.read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(NAMES)


def test_each_of_several_runs_in_a_process_of_its_own_and_a_failure_stops_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive found Spark as the pipeline had begun it, without Kafka's package."""
    begun: list[str] = []

    def run(words: list[str], *, check: bool) -> CompletedProcess[bytes]:
        begun.append(words[-1])
        return CompletedProcess(words, 1 if words[-1] == "pipeline" else 0)

    monkeypatch.setattr("benchmarks.__main__.subprocess.run", run)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "pipeline", "archive"])
    assert (main(), begun) == (1, ["pipeline", "archive"])
