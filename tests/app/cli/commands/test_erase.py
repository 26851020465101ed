"""``hookwire erase`` and ``rewrite``: after both, no file of the database has a byte of what was erased (GU-14)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import asyncpg
import pytest

from tests.app.cli.commands.test_services import hookwire
from tests.app.cli.test_main import hookwire as command
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, opened

SMALL = b"person-in-a-small-payload"
LARGE = b"person-in-a-large-payload"
KEY = "person-in-a-key"
HEADER = "person-in-a-header"
EXCERPT = b"person-in-an-answer"
TOPIC = "orders"


async def holding(database_url: str, *texts: bytes) -> dict[bytes, int]:
    """How many files of the database have each text, as its disk will have it. The log is none of them."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("CHECKPOINT")
        folder = Path(await connection.fetchval("SHOW data_directory"))
        number = await connection.fetchval("SELECT oid FROM pg_database WHERE datname = current_database()")
    finally:
        await connection.close()
    contents = [path.read_bytes() for path in (folder / "base" / str(number)).iterdir() if path.is_file()]
    return {text: sum(text in content for content in contents) for text in texts}


async def publish(hub: RunningHub) -> None:
    """One small event, and one that does not fit into a page and cannot be compressed: it is stored outside the row."""
    headers = {"Hookwire_Key": KEY, "ce_specversion": "1.0", "ce_id": "1", "ce_source": "/x", "ce_type": "t"}
    await hub.publish(TOPIC, SMALL, **headers, ce_subject=HEADER)
    noise = os.urandom(40_000)
    large = b"".join(noise[n : n + 50] + LARGE for n in range(0, len(noise), 50))
    last = (await hub.publish(TOPIC, large, Hookwire_Key=KEY)).json()
    await hub.until(f"/events/{last['id']}", lambda event: event["state"] == "dead")


async def test_no_byte_of_an_erased_event_is_left_in_the_files_of_the_database(
    running_hub: RunHub, receiver: Receiver, database_url: str
) -> None:
    """The search finds them first: in rows, in TOAST, in an index, in the statistics of the planner."""
    receiver.status, receiver.answer = 400, EXCERPT
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe(TOPIC, receiver.callback, retry_schedule_seconds=[], mode="ordered", on_exhausted="skip")
        await publish(hub)
        await hub.sql("ANALYZE hookwire.events")
        erased = await hookwire(
            hub, "erase", "--topic", TOPIC, "--key", KEY, "--replace-key", "--force", "--why", "4711"
        )
    texts = (SMALL, LARGE, KEY.encode(), HEADER.encode(), EXCERPT)
    before = await holding(database_url, *texts)
    environment = {"DATABASE_URL": database_url}
    done = await command("rewrite", "--json", **environment)
    after = await holding(database_url, *texts)
    again = await command("rewrite", **environment)

    assert [text for text, files in before.items() if not files] == []
    assert (erased[0], erased[1].splitlines()[0]) == (
        0, "2 events were erased, with 2 excerpts of answers and 0 ended jobs",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    rewritten = [one["table"] for one in json.loads(done.stdout)["tables"] if one["stops_publishing"]]
    assert (after, rewritten) == (dict.fromkeys(texts, 0), ["hookwire.events_00000000"])
    assert again.stdout == "0 tables were rewritten, for 0 erased events\n"


async def test_a_subject_is_found_by_reading_all_events_in_steps(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each topic and in each mode of CloudEvents. The command says how far it is."""
    monkeypatch.setattr("app.web.api.operating.erasures._READ_MAX", 2)
    about = {"specversion": "1.0", "source": "/x", "type": "t", "subject": "Ada Lovelace"}
    binary = {f"ce_{name}": value for name, value in about.items()}
    async with running_hub(ALL_ROLES) as hub:
        structured = json.dumps(about | {"id": "1", "data": 1}).encode()
        published = [
            await hub.publish("a", structured, content_type="application/cloudevents+json"),
            await hub.publish("a", b"x", **binary | {"ce_subject": "Bob"}, ce_id="2"),
            await hub.publish("b", b"x", **binary | {"ce_subject": "Ada%20Lovelace"}, ce_id="3"),
        ]
        ids = [answer.json()["id"] for answer in published]
        for event in ids:
            await hub.until(f"/events/{event}", lambda found: all(one["state"] == "sent" for one in found["sinks"]))
        of_one = await hookwire(hub, "erase", "--subject", "Ada Lovelace", "--topic", "b", "--dry-run")
        of_all = await hookwire(hub, "erase", "--subject", "Ada Lovelace")
        erased = [bool((await hub.client.get(f"/events/{event}")).json()["erased_at"]) for event in ids]
        [entry] = (await hub.client.get("/audit?limit=1")).json()["items"]

    assert (of_one[1].splitlines()[0].split(",")[0], of_one[2]) == ("1 event would be erased", "")
    assert (of_all[0], of_all[2]) == (0, "hookwire: 2 events read, at most 1 to read; 1 chosen so far\n")
    assert (erased, entry["subject"]) == ([True, False, True], "a subject")


async def test_a_rewrite_names_the_transaction_that_may_still_read_what_was_erased(database_url: str) -> None:
    """PostgreSQL would copy the former rows for it, and they would stay in the new file."""
    reader = await asyncpg.connect(database_url, server_settings={"application_name": "report"})
    await reader.execute("SELECT hookwire.publish('orders', 'x'::text)")
    await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await reader.fetch("SELECT FROM hookwire.topics")
    async with opened(database_url) as (database, _):
        await database.fetchrow("erasure.erase", [1], "x", False)
    done = await command("rewrite", "--wait", "0", DATABASE_URL=database_url)
    await reader.close()

    assert (done.code, done.stdout, "report (process " in done.stderr) == (1, "", True)
