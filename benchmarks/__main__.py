"""``python -m benchmarks [NAME ...]``: run all benchmarks, or some, and print their tables.

Each benchmark prints its table when it is done. If one fails, the exit code is 1 at the end. Each of several benchmarks
runs in a process of its own: its memory is measured alone, and Spark has one set of packages per process.
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
    "backlog", "sustained", "mariadb", "amqp", "pipeline", "commits", "files", "minutes", "archive", "services",
    "services_flood", "titanic", "calls", "queues", "jobs", "pickup", "depth", "cost", "answers", "destinations",
    "verdict", "client", "intake", "kafka_source", "console", "mysql_queue", "doors", "settling", "settling_cost",
    "incidents", "standby_fence", "enqueue", "two_hubs", "backfill", "typed", "lone_event", "start", "take_over",
    "nightly",
)  # fmt: skip


def main() -> int:
    """Run the benchmarks that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure ours and a yardstick in one run, and print the ratio.",
        epilog="A benchmark with options of its own also runs alone: python -m benchmarks.relay --help",
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
    """Run the benchmark in a process of its own; return whether it succeeded."""
    return subprocess.run([sys.executable, "-m", "benchmarks", name], check=False).returncode == 0


def _known(name: str) -> str:
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"no such benchmark: {name}; there are {', '.join(NAMES)}")
    return name


def _run(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    if hasattr(module, "main"):  # it has options of its own
        arguments, sys.argv = sys.argv, [name]
        try:
            module.main()
        finally:
            sys.argv = arguments
    else:
        print("\n".join(asyncio.run(module.run())), flush=True)


if __name__ == "__main__":
    sys.exit(main())
