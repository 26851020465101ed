"""benchmarks/README.md names every benchmark that `make bench` runs, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.__main__ import NAMES

README = Path(__file__).parents[2] / "benchmarks" / "README.md"


def test_the_table_has_what_make_bench_runs() -> None:
    """RL-25."""
    rows = re.findall(r"^\| `([a-z]+)` \|", README.read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(NAMES)
