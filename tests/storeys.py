"""Which marks a test has by its place, its fixtures and its other marks; the make targets select by them."""

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

UNIT_FOLDERS = (
    "app", "db", "egress", "event", "hub", "jobs", "relay", "reqrep", "runtime", "sdk", "webhooks",
)  # fmt: skip
"""The folders below `tests` that mirror a room. The other folders test ports, or the whole product."""

SERVER_FIXTURES = frozenset(
    {
        "servers_folder", "pair", "postgres18", "postgres15", "postgres", "databases18", "databases15", "database_url",
        "database_url15", "database_url_both", "mariadb", "mariadb_url", "kafka", "strict_kafka", "rabbitmq", "prosody",
    }
)  # fmt: skip
"""The fixtures of `tests/conftest.py` that boot a server or are given one."""

_STARTS_PROCESSES = re.compile(r"\bsubprocess\b|create_subprocess|\bdb\.embedded\b")


def mark_storeys(items: Sequence[pytest.Item]) -> None:
    """Mark scenarios as `fault`, public clients as `interop`, `soak` as `slow`, and tests without servers as `unit`."""
    for item in items:
        if item.nodeid.startswith("tests/faults/"):
            item.add_marker("fault")
        if item.nodeid.startswith("tests/interop/"):
            item.add_marker("interop")
        if item.get_closest_marker("soak"):
            item.add_marker("slow")
        if is_unit(item):
            item.add_marker("unit")


def is_unit(item: pytest.Item) -> bool:
    """Return whether a test needs no server and its module starts no process."""
    if not isinstance(item, pytest.Function) or not is_unit_folder(item.path, item.config.rootpath):
        return False
    return not item.get_closest_marker("slow") and not _starts_processes(item.module) and not _needs_server(item)


def is_unit_folder(path: Path, root: Path) -> bool:
    """Return whether a file or folder can hold unit tests; a folder above all of them can."""
    if not path.is_relative_to(root):
        return False
    below = path.relative_to(root).parts
    return len(below) < 2 or below[0] != "tests" or below[1] in UNIT_FOLDERS or below[1].endswith(".py")


def _needs_server(item: pytest.Function) -> bool:
    """Return whether a server is among the fixtures, or a fixture may ask for one by its name."""
    if SERVER_FIXTURES.intersection(item.fixturenames):
        return True
    definitions = [one for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    return any(hands_request_on(one.func) for one in definitions if "request" in one.argnames)


@cache
def _starts_processes(module: ModuleType) -> bool:
    return _STARTS_PROCESSES.search(inspect.getsource(module)) is not None


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
