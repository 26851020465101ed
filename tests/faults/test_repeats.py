"""The process dies round the COMMIT of a POST with an Idempotency-Key (GS-10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.chaos.client import ChaosClient, ClientAnswer, NoAnswer
from tests.faults.harness import Harness, open_harness

KEY = {"Idempotency-Key": "once", "Content-Type": "application/json"}
MADE = {
    "/subscriptions": (b'{"topic": "mine", "callback": "http://127.0.0.1:9000/hook"}', "/subscriptions"),
    "/jobs": (b'{"kind": "k"}', "/jobs"),
    "/queues/q/messages": (b"{}", "/queues/q/messages"),
}


async def ask(harness: Harness, method: str, path: str, body: bytes = b"") -> ClientAnswer | None:
    client = ChaosClient(harness.scenario.children[0].port, 10)
    try:
        return await client.request(method, path, body, KEY if method == "POST" else None)
    except NoAnswer:
        return None
    finally:
        client.close()


@pytest.mark.parametrize(("point", "is_made"), [("repeat.before_commit", False), ("repeat.after_commit", True)])
@pytest.mark.parametrize("path", MADE)
async def test_a_repeat_after_a_kill_makes_no_double(
    path: str, point: str, is_made: bool, database_url: str, tmp_path: Path, seed: int
) -> None:
    """GS-10: killed before COMMIT nothing is there, killed after it the repeat is told what was made."""
    body, listed = MADE[path]
    async with open_harness(database_url, tmp_path, seed, processes=1) as harness:
        child = harness.scenario.children[0]
        before = await number_of(harness, listed)
        await child.kill()
        await child.start(f"{point}:kill")
        first = await ask(harness, "POST", path, body)
        await child.ended(10)
        await child.start()
        between = await number_of(harness, listed)
        again = await ask(harness, "POST", path, body)
        after = await number_of(harness, listed)

    assert first is None
    assert again is not None
    assert (again.status, "idempotency-replayed" in again.headers) == (201, is_made)
    assert (between - before, after - before) == (int(is_made), 1)


async def number_of(harness: Harness, path: str) -> int:
    answer = await ask(harness, "GET", path)
    assert answer is not None
    return len(json.loads(answer.body).get("items", ()))
