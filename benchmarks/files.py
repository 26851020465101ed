"""A commit to a table of 100 files beside one to a table of 100,000, in one run (GP-11).

    python -m benchmarks.files --few 100 --many 100000 --commits 200

Each commit adds one file behind the last one, as a batch of the archive does; no data is written. The log of both
tables begins with a checkpoint. A checkpoint after a commit counts as part of it. The first commit of a process is left
out: ``deltalake`` makes it, and reads the words on all files. The yardstick is the table of few files.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.commits import STATE, named
from pipeline.delta.snapshot import Change, Snapshot
from pipeline.lake import Table, bronze
from pipeline.storage import LakeStorage


def prepared(folder: Path, files: int) -> Table:
    """A table of so many files, of 30 days."""
    table = bronze(LakeStorage(str(folder)))
    first = tuple(named(number, number % 30) for number in range(files))
    table.commit(Snapshot(), Change("archive", "bench", first, state=STATE))
    DeltaTable((folder / "bronze").as_uri()).create_checkpoint()
    return table


def timed(table: Table, files: int, commits: int) -> tuple[list[float], list[float], int]:
    """Return the seconds and the processor seconds of each commit with its checkpoint, and how many there were."""
    snapshot = table.refreshed()
    wall, processor, checkpoints = [], [], 0
    for number in range(files, files + commits):
        began, spent = time.perf_counter(), time.process_time()
        snapshot = table.commit(snapshot, Change("archive", "bench", (named(number, 29),)))
        checkpoints += table.write_checkpoint()
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - spent)
    return wall, processor, checkpoints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=200)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name:
        for files in (options.few, options.many):
            table = prepared(Path(name) / str(files), files)
            wall, processor, checkpoints = timed(table, files, options.commits)
            found.append((statistics.mean(wall), max(wall), statistics.mean(processor)))
            print(
                f"{files:9,} files: {options.commits} commits, mean {1000 * statistics.mean(wall):7.2f} ms, median "
                f"{1000 * statistics.median(wall):7.2f}, worst {1000 * max(wall):8.2f}, processor "
                f"{1000 * statistics.mean(processor):7.2f} ms each, {checkpoints} checkpoints",
                flush=True,
            )
    few, many = found
    ratios = ", ".join(
        f"{word} {more / less:.2f}" for word, less, more in zip(("mean", "worst", "processor"), few, many, strict=True)
    )
    print(f"many beside few: {ratios}")


if __name__ == "__main__":
    main()
