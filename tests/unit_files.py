"""Which files hold tests without servers, seen in their texts alone, and which process collects and runs them."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.storeys import SERVER_FIXTURES, UNIT_FOLDERS, is_unit_path

_FUNCTION = re.compile(r"\bdef (\w+)\(([^)]*)\)")
_PARAMETER = re.compile(r"(\w+)\s*(?::|,|=|$)")
_TEST_CLASS = re.compile(r"^class Test|\.TestCase\b", re.MULTILINE)

_BYTES_OF_A_SECOND = 30_000
_SECONDS = {
    "tests/app/web/test_server.py": 34,
    "tests/reqrep/test_budget.py": 8,
    "tests/sdk/client/test_hostile_hub.py": 13,
    "tests/models/test_standby_fence.py": 6,
    "tests/sdk/test_services_asyncio.py": 6,
    "tests/app/web/test_openapi.py": 5,
    "tests/app/web/test_pipelining.py": 5,
    "tests/app/cli/test_narrow.py": 5,
    "tests/reqrep/test_broker_states.py": 4,
    "tests/event/test_cloudevents_modes.py": 4,
    "tests/app/web/test_scopes.py": 3,
    "tests/app/web/test_problem.py": 3,
    "tests/reqrep/titanic/test_file_store.py": 3,
    "tests/reqrep/titanic/test_titanic_sockets.py": 3,
    "tests/egress/test_guard.py": 3,
}
"""About how long the longest files take. A wrong figure costs time and nothing else."""


def unit_files(root: Path) -> Iterator[Path]:
    """Yield the files that may hold tests without servers.

    Left out is a file whose every test asks for a server's fixture, or for a fixture above one.
    """
    for folder in UNIT_FOLDERS:
        for path in sorted((root / "tests" / folder).rglob("test_*.py")):
            if is_unit_path(path, root) and not _needs_servers(path, root):
                yield path


def dealt(files: Sequence[Path], hands: int) -> list[list[Path]]:
    """Return as many hands of files, which take about equally long: the longest file first, to the shortest hand."""
    dealt_files: list[list[Path]] = [[] for _ in range(hands)]
    seconds = [0.0] * hands
    for path in sorted(files, key=_seconds, reverse=True):
        shortest = seconds.index(min(seconds))
        dealt_files[shortest].append(path)
        seconds[shortest] += _seconds(path)
    return dealt_files


@cache
def _seconds(path: Path) -> float:
    known = (seconds for name, seconds in _SECONDS.items() if str(path).endswith(name))
    return path.stat().st_size / _BYTES_OF_A_SECOND + next(known, 0)


def _needs_servers(path: Path, root: Path) -> bool:
    """Return whether every test of a file does; a class of tests may hold some that do not."""
    if _TEST_CLASS.search(path.read_text(encoding="utf-8")):
        return False
    folders = [folder for folder in path.parents if folder.is_relative_to(root / "tests") and folder != root / "tests"]
    functions = [found for folder in folders for found in _functions(folder / "conftest.py")] + _functions(path)
    servers = _above(SERVER_FIXTURES, functions)
    return all(servers & parameters for name, parameters in functions if name.startswith("test_"))


def _above(servers: frozenset[str], functions: Sequence[tuple[str, frozenset[str]]]) -> frozenset[str]:
    """Return the fixtures that ask for one of these, directly or not, and these."""
    asking = {name for name, parameters in functions if servers & parameters and not name.startswith("test_")}
    return servers if asking <= servers else _above(servers | asking, functions)


@cache
def _functions(path: Path) -> list[tuple[str, frozenset[str]]]:
    """Return each function's name and the names of its parameters."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [(name, frozenset(_PARAMETER.findall(inside))) for name, inside in _FUNCTION.findall(text)]
