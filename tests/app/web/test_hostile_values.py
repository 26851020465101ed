"""What no parser of ours likes, in every place of every route: never a 5xx, never a long hold of the event loop."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from event.strict_json import loads
from scripts.openapi import OPENAPI_FILE
from tests.app.conftest import RunHub

DOCUMENT = json.loads(OPENAPI_FILE.read_text())
NUL = "%00"


def requests_with_nul() -> Iterator[tuple[str, str, Any]]:
    """Each parameter of a path and of a query in its turn, with an example as the body."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            body = None if content is None else example_of(content)
            url = path.replace("{", "").replace("}", "")
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    nul = path.replace(f"{{{parameter['name']}}}", NUL).replace("{", "").replace("}", "")
                    yield method, nul, body
                elif parameter["in"] == "query":
                    yield method, f"{url}?{parameter['name']}={NUL}", body


def example_of(content: dict[str, Any]) -> Any:
    if "example" in content:
        return content["example"]
    schema = content["schema"]
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return copy.deepcopy(schema.get("examples", [None])[0])


async def test_a_nul_anywhere_in_an_address_is_no_servers_trouble(running_hub: RunHub) -> None:
    """FS-21: PostgreSQL knows no such character, so a route that hands it on answers 500."""
    async with running_hub(access="open", websub_foreign_topics="any") as hub:
        found = {
            (method, url): (await hub.client.request(method, url, json=body)).status_code
            for method, url, body in requests_with_nul()
        }

    assert (len(found) > 100, {request: status for request, status in found.items() if status >= 500}) == (True, {})


@pytest.mark.parametrize("since", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-01-15T09:31:07"])
async def test_a_moment_beyond_the_calendar_is_refused(shared_hub: RunHub, since: str) -> None:
    """FS-21: it was answered 500."""
    async with shared_hub() as hub:
        await hub.client.put("/queues/q", json={"copies": True})
        answer = await hub.client.put("/queues/q/consumers/c", json={"since": since})

        assert (answer.status_code, answer.json()["parameter"]) == (400, "since")


async def test_a_large_batch_of_messages_is_parsed_beside_the_event_loop(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FS-22, T13: 4 MB of small values held all other requests up for two seconds."""
    threads: set[threading.Thread] = set()
    real = loads

    def spied(data: bytes) -> object:
        threads.add(threading.current_thread())
        return real(data)

    monkeypatch.setattr("app.web.api.work.messages.loads", spied)
    headers = {"Content-Type": "application/x-ndjson"}
    async with running_hub() as hub:
        line = json.dumps("x" * 300_000).encode() + b"\n"
        large = await hub.client.post("/queues/q/messages", content=line, headers=headers)

        assert (large.status_code, threading.main_thread() in threads) == (201, False)


async def test_a_batch_of_messages_has_one_budget_of_values(running_hub: RunHub) -> None:
    """FS-22: each line kept to its own limit."""
    line = b"[%b]\n" % b",".join([b"{}"] * 30_000)
    async with running_hub() as hub:
        headers = {"Content-Type": "application/x-ndjson"}
        answer = await hub.client.post("/queues/q/messages", content=line * 10, headers=headers)

        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (400, "malformed-batch")
