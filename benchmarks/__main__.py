"""``python -m benchmarks [NAME ...]``: run all benchmarks, or some, and print their tables.

Each prints as soon as it is done; a benchmark that fails says so, and the exit code is 1 in the end. Several run in a
process each: what one holds is not counted as another's memory, and Spark has one set of packages for each process.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import subprocess
import sys
import time

NAMES = (
    "publish", "deliver", "hub", "latency", "isolation", "standing", "footprint", "idle", "gap", "outbound", "relay",
    "backlog", "sustained", "mariadb", "amqp", "pipeline", "commits", "archive", "services", "titanic", "calls",
    "queues", "jobs", "pickup", "depth", "cost",
)  # fmt: skip
_WITH_OWN_COMMAND = (
    "standing", "idle", "gap", "outbound", "relay", "backlog", "sustained", "mariadb", "amqp", "pipeline", "commits",
    "archive", "services", "titanic", "queues", "jobs", "pickup", "depth", "cost",
)  # fmt: skip


def main() -> int:
    """Run what the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Ours and a yardstick in one run, and their ratio.",
        epilog="Those with options of their own run alone, too: python -m benchmarks.relay --help",
    )  # fmt: skip
    parser.add_argument("names", metavar="NAME", nargs="*", type=_known, help=f"all, or some of {', '.join(NAMES)}")
    wanted = parser.parse_args().names or list(NAMES)
    if len(wanted) > 1:
        failed = [name for name in wanted if not _succeeds(name)]
        if failed:
            print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1 if failed else 0
    print(f"== {wanted[0]}", flush=True)
    started = time.monotonic()
    _run(wanted[0])
    print(f"   ({time.monotonic() - started:.0f} s)\n", flush=True)
    return 0


def _succeeds(name: str) -> bool:
    """Run it in a process of its own."""
    return subprocess.run([sys.executable, "-m", "benchmarks", name], check=False).returncode == 0


def _known(name: str) -> str:
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"no such benchmark: {name}; there are {', '.join(NAMES)}")
    return name


def _run(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    if name in _WITH_OWN_COMMAND:
        arguments, sys.argv = sys.argv, [name]
        try:
            module.main()
        finally:
            sys.argv = arguments
    else:
        print("\n".join(asyncio.run(module.run())), flush=True)


if __name__ == "__main__":
    sys.exit(main())
