"""A commit to a table of 100 files beside one to a table of 100,000, in one run (GP-11).

    python -m benchmarks.files --few 100 --many 100000 --commits 200

Each commit adds one file behind the last one, as a batch of the archive does; no data is written. The log of both
tables begins with a checkpoint. The first commit of a process is left out: ``deltalake`` makes it, and reads the words
on all files. The yardstick is the table of few files.

The archive writes checkpoints behind its rounds, and the more files there are, the rarer. So 200 commits to many files
need none. Each table therefore gets one at the end, measured by itself. The last line counts for each commit its share
of it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
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
    """The cost of commits in seconds, of one checkpoint, and the number of commits for each."""

    commits: list[float]
    processor: float
    checkpoint: float
    interval: int

    @property
    def mean(self) -> float:
        """The mean of a commit without a checkpoint."""
        return statistics.mean(self.commits)

    @property
    def whole(self) -> float:
        """The mean of a commit with its share of a checkpoint."""
        return self.mean + self.checkpoint / self.interval


def prepared(folder: Path, files: int) -> Table:
    """A table of so many files, of 30 days."""
    table = bronze(LakeStorage(str(folder)))
    first = tuple(named(number, number % 30) for number in range(files))
    table.commit(Snapshot(), Change("archive", "bench", first, state=STATE))
    DeltaTable((folder / "bronze").as_uri()).create_checkpoint()
    return table


def measured(table: Table, files: int, commits: int) -> Cost:
    """Make the commits, and then one checkpoint."""
    snapshot, wall = table.refreshed(), []
    spent = time.process_time()
    for number in range(files, files + commits):
        began = time.perf_counter()
        snapshot = table.commit(snapshot, Change("archive", "bench", (named(number, 29),)))
        wall.append(time.perf_counter() - began)
    spent = time.process_time() - spent
    began = time.perf_counter()
    table.checkpoint()
    return Cost(wall, spent / commits, time.perf_counter() - began, commits_between(INTERVAL, len(snapshot.files)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=200)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name:
        for files in (options.few, options.many):
            cost = measured(prepared(Path(name) / str(files), files), files, options.commits)
            found.append(cost)
            middle = statistics.median(cost.commits)
            print(
                f"{files:9,} files: {options.commits} commits without a checkpoint, mean {1000 * cost.mean:7.2f} ms, "
                f"median {1000 * middle:7.2f}, worst {1000 * max(cost.commits):8.2f}, processor "
                f"{1000 * cost.processor:7.2f} ms each; a checkpoint {1000 * cost.checkpoint:9.2f} ms, one for "
                f"{cost.interval:,} commits; with its share {1000 * cost.whole:7.2f} ms",
                flush=True,
            )
    few, many = found
    ratios = {
        "mean": many.mean / few.mean, "worst": max(many.commits) / max(few.commits),
        "processor": many.processor / few.processor, "mean with the share of a checkpoint": many.whole / few.whole,
        "worst with a whole checkpoint": (max(many.commits) + many.checkpoint) / (max(few.commits) + few.checkpoint),
    }  # fmt: skip
    print("many beside few: " + ", ".join(f"{word} {ratio:.2f}" for word, ratio in ratios.items()))


if __name__ == "__main__":
    main()
