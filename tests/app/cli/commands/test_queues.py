"""``hookwire queues``, ``tasks`` and ``jobs periodic``: data for people, and with --json on one line for programs."""

from __future__ import annotations

import json

from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import RunHub


async def test_data_are_printed_on_one_line_with_json(running_hub: RunHub) -> None:
    """Seven commands printed JSON for people and refused --json, which the page of commands promises."""
    async with running_hub() as hub:
        await hub.client.post("/queues/mail/messages", content=b"hello")
        await hub.client.put("/job-schedules/morning", json={"cron": "0 6 * * *", "zone": "UTC", "job": {"kind": "k"}})
        [(task,)] = await hub.sql("SELECT hookwire.enqueue_task('k', '{}')::text")
        asked = (f"tasks show {task}", "tasks counts", "queues show mail", "queues peek mail", "queues dead mail",
                 "jobs periodic list")  # fmt: skip
        found = [await hookwire(hub, *words.split(), "--json") for words in asked]

    assert [(code, out.count("\n"), bool(json.loads(out))) for code, out, _ in found] == [(0, 1, True)] * len(asked)
