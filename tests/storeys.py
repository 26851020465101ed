"""Which marks a test has by its place, its fixtures and its other marks; the make targets select by them."""

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

UNIT_FOLDERS = (
    "app", "db", "egress", "event", "hub", "jobs", "models", "relay", "reqrep", "runtime", "sdk", "webhooks",
)  # fmt: skip
"""The folders below `tests` that mirror a room, and the models. The other folders test ports, or the whole product."""

SERVER_FIXTURES = frozenset(
    {
        "servers_folder", "pair", "postgres18", "postgres15", "postgres", "databases18", "databases15", "database_url",
        "database_url15", "database_url_both", "mariadb", "mariadb_url", "kafka", "strict_kafka", "rabbitmq", "prosody",
        "session_of_file18", "session_of_file15", "session_of_file", "rolled_back",
    }
)  # fmt: skip
"""The fixtures of `tests/conftest.py` that boot a server or are given one."""

LONG = frozenset((Path(__file__).parent / "long_tests.txt").read_text(encoding="utf-8").splitlines())
"""Tests that need many seconds, a line each; `make faults` runs them. Each has neighbours that show the same in
`make test`, at another place or size.
"""

PLANS = frozenset({"tests/db/test_flat_plans.py", "tests/db/test_plans.py", "tests/db/test_stale_plans.py"})
"""Files about the plans of statements over large tables; on PostgreSQL 15, `make faults` runs them."""

_STARTS_PROCESSES = re.compile(r"\bsubprocess\b|create_subprocess|\bdb\.embedded\b")


def mark_storeys(items: Sequence[pytest.Item]) -> None:
    """Mark scenarios as `fault`, public clients as `interop`, `soak` and long ones as `slow`, those without servers as
    `unit`.
    """
    for item in items:
        if item.nodeid.startswith("tests/faults/"):
            item.add_marker("fault")
        if item.nodeid.startswith("tests/interop/"):
            item.add_marker("interop")
        if item.get_closest_marker("soak") or is_long(item.nodeid):
            item.add_marker("slow")
        if is_unit(item):
            item.add_marker("unit")


def is_long(node_id: str) -> bool:
    """Return whether a test needs many seconds."""
    return node_id in LONG or ("[postgres15" in node_id and node_id.partition("::")[0] in PLANS)


def is_unit(item: pytest.Item) -> bool:
    """Return whether a test needs no server and its module starts no process."""
    if not isinstance(item, pytest.Function) or not is_unit_path(item.path, item.config.rootpath):
        return False
    return not item.get_closest_marker("slow") and not _needs_server(item)


def is_unit_path(path: Path, root: Path) -> bool:
    """Return whether a folder, or a file with its text, can hold unit tests; a folder above all of them can."""
    if not path.is_relative_to(root):
        return False
    below = path.relative_to(root).parts
    is_in_a_room = len(below) < 2 or below[0] != "tests" or below[1] in UNIT_FOLDERS or below[1].endswith(".py")
    return is_in_a_room and not _starts_processes(path)


@cache
def _starts_processes(path: Path) -> bool:
    return path.suffix == ".py" and _STARTS_PROCESSES.search(path.read_text(encoding="utf-8")) is not None


def _needs_server(item: pytest.Function) -> bool:
    """Return whether a server is among the fixtures, or a fixture may ask for one by its name."""
    if SERVER_FIXTURES.intersection(item.fixturenames):
        return True
    definitions = [one for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    return any(hands_request_on(one.func) for one in definitions if "request" in one.argnames)


@cache
def hands_request_on(fixture: Callable[..., Any]) -> bool:
    """Return whether a fixture does more with `request` than read `request.param`.

    Only such a fixture can call `request.getfixturevalue`, here or in a function that gets the request.
    """
    if not fixture.__module__.startswith("tests."):
        return False
    tree = ast.parse(inspect.cleandoc(inspect.getsource(fixture)))
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "request"]
    reads = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "request"
        and node.attr == "param"
    ]
    return len(uses) > len(reads)
