"""`make bench`: benchmarks/README.md names every benchmark that it runs, and no other."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from benchmarks.__main__ import NAMES, main

FOLDER = Path(__file__).parents[2] / "benchmarks"
RESULTS = {"met", "**missed**", "not measured", "no bar", "bounded; rate **missed**"}


def rows() -> list[list[str]]:
    """The cells of the table's rows: bar, measured, ratio, result, command."""
    lines = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]


def test_the_table_has_what_make_bench_runs() -> None:
    """RL-25; a bar that no benchmark prints has no command."""
    commands = {row[4] for row in rows()} - {"–"}

    assert commands == {f"`{name}`" for name in NAMES}


def test_each_row_has_a_result_and_a_row_without_a_figure_says_so() -> None:
    """HO-10: a bar is met, missed or not measured."""
    assert [row for row in rows() if len(row) != 5 or row[3] not in RESULTS] == []
    assert [row for row in rows() if row[1] == "–" and row[3] != "not measured"] == []


def test_every_profile_is_linked_from_the_table_s_page() -> None:
    """HO-10."""
    linked = re.findall(r"\(profiles/(\w+\.md)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))

    assert sorted(linked) == sorted(path.name for path in (FOLDER / "profiles").iterdir())


def test_each_of_several_runs_in_a_process_of_its_own_and_a_failure_stops_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive found Spark as the pipeline had begun it, without Kafka's package."""
    begun: list[str] = []

    def run(words: list[str], *, check: bool) -> CompletedProcess[bytes]:
        begun.append(words[-1])
        return CompletedProcess(words, 1 if words[-1] == "pipeline" else 0)

    monkeypatch.setattr("benchmarks.__main__.subprocess.run", run)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "pipeline", "archive"])
    assert (main(), begun) == (1, ["pipeline", "archive"])
