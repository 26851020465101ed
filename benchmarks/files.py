"""A commit to a table of 100 files beside one to a table of 100,000, in one run (GP-11).

    python -m benchmarks.files --few 100 --many 100000 --commits 1000 --rounds 3

Each commit adds one file behind the last one, as a batch of the archive does; no data is written. The log of both
tables begins with a checkpoint. The first commit of a process is measured by itself: ``deltalake`` makes it, and reads
the words on all files. The yardstick is the table of few files.

Checkpoints are written beside the commits by a thread. They are as rare as those of the archive: one for 100 commits to
few files, and one for 1,000 commits to 100,000. The first begins in the middle of such a period.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from benchmarks.commits import STATE, named
from pipeline.delta.head import commits_between
from pipeline.delta.snapshot import Change, Snapshot
from pipeline.lake import Table, bronze
from pipeline.storage import LakeStorage

INTERVAL = 100  # the property delta.checkpointInterval of our tables


class Cost(NamedTuple):
    """The cost of commits in milliseconds, of the first one of a process, and of the checkpoints beside them."""

    first: float
    commits: list[float]
    processor: float
    checkpoints: list[float]

    @property
    def mean(self) -> float:
        """The mean of all commits but the first."""
        return statistics.mean(self.commits)

    @property
    def worst(self) -> float:
        """The slowest of them."""
        return max(self.commits)


def prepared(folder: Path, files: int) -> Table:
    """A table of so many files, of 30 days."""
    table = bronze(LakeStorage(str(folder)))
    first = tuple(named(number, number % 30) for number in range(files))
    table.commit(Snapshot(), Change("archive", "bench", first, state=STATE))
    DeltaTable((folder / "bronze").as_uri()).create_checkpoint()
    os.sync()  # what was prepared is not written to the disk while commits are measured
    return bronze(LakeStorage(str(folder)))


def measured(table: Table, files: int, commits: int) -> Cost:
    """Make the commits, and checkpoints beside them."""
    snapshot, wall, spent = table.snapshot(), [], 0.0
    period = commits_between(INTERVAL, files)
    begun: list[Future[float]] = []
    with ThreadPoolExecutor(1) as beside:
        for made in range(commits + 1):
            if made % period == period // 2:
                begun.append(beside.submit(millis_of_checkpoint, table))
            began, of_thread = time.perf_counter(), time.thread_time()
            snapshot = table.commit(snapshot, Change("archive", "bench", (named(files + made, 29),)))
            wall.append(1000 * (time.perf_counter() - began))
            spent += 1000 * (time.thread_time() - of_thread) if made else 0
    return Cost(wall[0], wall[1:], spent / commits, [each.result() for each in begun])


def millis_of_checkpoint(table: Table) -> float:
    """Write a checkpoint."""
    began = time.perf_counter()
    assert table.checkpoint()
    return 1000 * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[int, list[Cost]] = {options.few: [], options.many: []}
    for _ in range(options.rounds):
        for files, costs in found.items():
            with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name:
                cost = measured(prepared(Path(name), files), files, options.commits)
            costs.append(cost)
            print(
                f"{files:9,} files: {options.commits} commits, mean {cost.mean:7.2f} ms, "
                f"median {statistics.median(cost.commits):7.2f}, worst {cost.worst:8.2f}, processor "
                f"{cost.processor:6.2f} ms each; first of a process {cost.first:8.2f} ms; "
                f"{len(cost.checkpoints)} checkpoints, the longest {max(cost.checkpoints, default=0):8.2f} ms",
                flush=True,
            )
    pairs = list(zip(found[options.few], found[options.many], strict=True))
    for word in ("mean", "worst", "processor"):
        ratios = [getattr(many, word) / getattr(few, word) for few, many in pairs]
        print(f"many beside few, {word}: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; middle "
              f"{statistics.median(ratios):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
