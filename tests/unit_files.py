"""Which files hold tests without servers, seen in their texts alone."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.storeys import SERVER_FIXTURES, is_unit_path

_FUNCTION = re.compile(r"\bdef (\w+)\(([^)]*)\)")
_PARAMETER = re.compile(r"(\w+)\s*(?::|,|=|$)")
_TEST_CLASS = re.compile(r"^class Test|\.TestCase\b", re.MULTILINE)


@cache
def is_unit_file(path: Path, root: Path) -> bool:
    """Return whether a test file may hold tests without servers.

    If not, each of its tests asks for a server's fixture, or for a fixture above one.
    """
    return is_unit_path(path, root) and not _needs_servers(path, root)


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
