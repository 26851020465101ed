"""Each id that is cited is defined by a row in docs/conformance: one sentence, and the test that shows it (HO-07)."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline", "sdk")
FOLDERS = (*ROOMS, "tests", "scripts", "benchmarks", "examples", "docs")

_ID = re.compile(r"(?<![\w./#-])(?:[A-Z]{2,3}-[A-Z]?\d{1,3}[a-z]?|B-\d{2}|F\d{2}|[IT]\d{1,2})(?![\w-])")
_ROW = re.compile(r"^\| ([A-Z]{1,3}-?[A-Z]?\d+[a-z]?)(?: [a-z])? \|", re.MULTILINE)
_NO_ID = re.compile(r"(CRC|UTF|SHA|SSH|KIP|ISO|RFC|AES|HMAC|TLS|UTC|AMQP|HTTP)-?\d+")
"""Names of standards that look like an id."""


def pages() -> Iterator[Path]:
    yield from sorted((ROOT / "docs/conformance").glob("*.md"))


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".py", ".sql", ".md"))
    yield from sorted(ROOT.glob("*.md"))


@cache
def defined() -> frozenset[str]:
    return frozenset(found for page in pages() for found in _ROW.findall(page.read_text(encoding="utf-8")))


def undefined(text: str) -> set[str]:
    """Return the ids in a text that no page defines."""
    return {found for found in _ID.findall(text) if not _NO_ID.fullmatch(found)} - defined()


def test_every_id_that_is_cited_is_defined_on_a_page() -> None:
    """HO-07."""
    found = {path.relative_to(ROOT).as_posix(): undefined(path.read_text(encoding="utf-8")) for path in sources()}

    assert {path: ids for path, ids in found.items() if ids} == {}


@pytest.mark.parametrize("planted", ["WH-R" + "99", "QQ-" + "07", "B-" + "99", "F" + "99"])
def test_an_id_that_no_page_defines_is_found(planted: str) -> None:
    assert undefined(f'"""{planted}, WH-R06: a docstring cites both."""') == {planted}
