"""Pages of problems that say that nothing was stored, and the code that raises them (GH-01)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from app.web.problem_kinds import KINDS
from tests.app.conftest import RunHub, RunningHub

ROOT = Path(__file__).parents[3]
RAISES = sorted(path for path in (ROOT / "app" / "web").rglob("*.py"))
SAYS_NOTHING = re.compile(r"[Nn]othing was (?:stored|changed|done)|[Nn]o item was stored")
UNKNOWN = frozenset({"outcome-unknown", "internal-error", "idempotency-key-in-flight"})
"""Kinds raised while the outcome is not known."""


def slugs_of(path: Path) -> set[str]:
    """The kinds that a file raises by name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call) and node.args]
    named = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Problem"]
    return {name.value for name in named if isinstance(name, ast.Constant)}


def test_each_kind_that_is_raised_by_name_has_a_page() -> None:
    """GH-01: a misspelt kind would be a KeyError while a request is refused."""
    assert set().union(*map(slugs_of, RAISES)) - KINDS.keys() == set()


@pytest.mark.parametrize("slug", sorted(UNKNOWN))
def test_a_page_of_an_unknown_outcome_does_not_say_that_nothing_was_stored(slug: str) -> None:
    """GH-01: who obeyed would make a double."""
    assert not SAYS_NOTHING.search(KINDS[slug].cause)
    assert "Idempotency-Key" in KINDS[slug].cure or "same key" in KINDS[slug].cure


BIG = b"x" * 1_000
ONCE = {"Idempotency-Key": "once"}
LINES = {"content-type": "application/x-ndjson"}
PROMISES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("body-too-large", "POST", "/topics/a/events", {"content": BIG}),
    ("body-too-large", "POST", "/topics/a/events", {"content": b'{"n":1}\n"' + BIG + b'"\n', "headers": LINES}),
    ("malformed-batch", "POST", "/topics/a/events", {"content": b"{\n", "headers": LINES}),
    ("malformed-batch", "POST", "/topics/a/events", {"content": b'{"n":1}\n{\n', "headers": LINES}),
    (
        "idempotency-key-reused",
        "POST",
        "/topics/a/events",
        {"content": b"other", "headers": ONCE},
    ),
    ("idempotency-key-reused", "POST", "/jobs", {"json": {"kind": "other"}, "headers": ONCE}),
    ("service-unavailable", "POST", "/services/s", {"content": b"1"}),
    ("wrong-state", "POST", "/jobs/{job}/retry", {}),
    ("stale-receipt", "POST", "/jobs/{job}/complete", {}),
]
"""Requests that are refused by a kind whose page says that nothing was stored or changed."""
CONTENTS = "events", "messages", "jobs", "requests", "subscriptions", "topics"


async def contents(hub: RunningHub) -> list[Any]:
    """What the tables hold, jobs with their states."""
    counts = ", ".join(f"(SELECT count(*) FROM hookwire.{table})" for table in CONTENTS)
    return await hub.sql(f"SELECT {counts}, (SELECT array_agg(j.state ORDER BY j.seq) FROM hookwire.jobs j)")


async def test_what_the_page_of_a_refusal_says_of_the_contents_is_true(running_hub: RunHub) -> None:
    """GH-01: on each path that raises such a kind."""
    seen = []
    async with running_hub(["api"], event_bytes_max=len(BIG) - 1) as hub:
        await hub.client.post("/topics/a/events", content=b"first", headers=ONCE)
        made = (await hub.client.post("/jobs", json={"kind": "k"}, headers=ONCE)).json()
        [held] = (await hub.client.post("/jobs/claim", json={"kinds": ["k"]})).json()["items"]
        await hub.client.post(f"/jobs/{made['id']}/release", json={"receipt": held["receipt"]})
        await hub.client.put("/services/s", json={"without_workers": "refuse"})
        for slug, method, path, asked in PROMISES:
            before = await contents(hub)
            sent = {"json": {"receipt": held["receipt"]}} if slug == "stale-receipt" else asked
            answer = await hub.client.request(method, path.format(job=made["id"]), **sent)
            seen.append((slug, answer.json()["type"].rpartition("/")[2], await contents(hub) == before))

    assert [slug for slug, *_ in PROMISES if not SAYS_NOTHING.search(KINDS[slug].cause)] == []
    assert seen == [(slug, slug, True) for slug, *_ in PROMISES]
