"""Print each room's coverage by its own tests: `make coverage`, or `make coverage ROOMS="event egress"`.

For each room its folder of tests runs in a process of its own, and only the lines and branches of that room count.
Other processes that a test starts are not measured, nor are tests marked `slow`. With ``--unit`` only tests that need
no server run; a room may have none. The exit code is 1 if a test has failed; the figures of that room are printed all
the same.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_OTHER_ROOMS = ("app/web", "app/cli", "app/settings", "app/maintenance", "app/chaos", "app/verdict")
_NO_TESTS_COLLECTED = 5


@dataclass(frozen=True)
class Room:
    """A room: its name, its source, the folder or files of its tests, and the sub-folders that are rooms themselves."""

    name: str
    source: str
    tests: tuple[str, ...]
    omitted: tuple[str, ...] = ()


def rooms() -> dict[str, Room]:
    """Return every room by its name."""
    plain = ("event", "db", "runtime", "egress", "relay", "webhooks", "jobs", "reqrep", "hub", "pipeline")
    found = [Room(name, name, (f"tests/{name}",)) for name in plain]
    found.append(Room("sdk", "sdk/src/hookwire", ("tests/sdk",)))
    found += [Room(name, name, (f"tests/{name}",)) for name in _OTHER_ROOMS]
    root = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/app").glob("test_*.py")))
    root += ("tests/app/assembly", "tests/app/bridges")
    found.append(Room("app (root)", "app", root, tuple(f"{name}/*" for name in _OTHER_ROOMS)))
    return {room.name: room for room in found}


@dataclass(frozen=True)
class Measured:
    """The coverage of a room: statements, share of statements and branches in percent, exit code of pytest."""

    statements: int
    percent: float
    code: int


def measure(room: Room, expression: str, folder: Path) -> Measured:
    """Run the tests of a room and count."""
    data, report = folder / "data", folder / "report.json"
    options = ["--branch", f"--source={room.source}", f"--data-file={data}"]
    if room.omitted:
        options.append(f"--omit={','.join(room.omitted)}")
    pytest = ["-m", "pytest", "-q", "-m", expression, "--no-header", "-p", "no:cacheprovider", *room.tests]
    ended = subprocess.run(
        [sys.executable, "-m", "coverage", "run", *options, *pytest], cwd=ROOT, stdout=sys.stderr, check=False
    )
    if ended.returncode == _NO_TESTS_COLLECTED:
        return Measured(0, 0.0, ended.returncode)
    command = ["json", f"--data-file={data}", "-q", "-o", str(report)]
    subprocess.run([sys.executable, "-m", "coverage", *command], cwd=ROOT, check=True)
    return read(report, ended.returncode)


def read(report: Path, code: int) -> Measured:
    """Read the totals of a JSON report."""
    totals = json.loads(report.read_text(encoding="utf-8"))["totals"]
    return Measured(totals["num_statements"], totals["percent_covered"], code)


HEAD = "| Room | Statements | Covered by its own tests |\n|---|---|---|"


def row(name: str, one: Measured) -> str:
    """Return the figures of a room as a row of a table in Markdown."""
    if one.code == _NO_TESTS_COLLECTED:
        return f"| `{name}` | – | no such tests |"
    failed = "" if one.code == 0 else ", a test failed" if one.code == 1 else f", pytest ended with {one.code}"
    return f"| `{name}` | {one.statements:,} | {one.percent:.0f} %{failed} |"


def main() -> int:
    """Measure what the command line names; return the exit code."""
    known = rooms()
    parser = argparse.ArgumentParser(prog="scripts.room_coverage", description="Each room's coverage by its own tests.")
    parser.add_argument("rooms", metavar="ROOM", nargs="*", help=f"all, or some of {', '.join(known)}")
    parser.add_argument("--unit", action="store_true", help="only the tests that need no server")
    options = parser.parse_args()
    if unknown := sorted(set(options.rooms) - known.keys()):
        parser.error(f"no room is called {unknown[0]!r}; there are {', '.join(known)}")
    print(HEAD, flush=True)
    failed = False
    for name in options.rooms or known:
        with tempfile.TemporaryDirectory() as folder:
            one = measure(known[name], "unit" if options.unit else "not slow", Path(folder))
        failed |= one.code not in (0, _NO_TESTS_COLLECTED)
        print(row(name, one), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
