"""/sources and `hookwire sources`: what operators see of Kafka sources, and what they do. No broker is needed."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest

from db.pool import PoolOptions, open_database
from db.statements import STATEMENTS
from hub.intake.kept_messages import KeptMessages
from relay.source import IntakeRefused, RefusedMessage, SourceMessage
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub

SETTINGS = {"kafka_sources": "stock?topic=stock.level", "kafka_source_servers": "127.0.0.1:1", "event_bytes_max": 100}


async def arrange(hub: RunningHub) -> None:
    await hub.sql("INSERT INTO hookwire.sources (name) VALUES ('stock')")
    await hub.sql(
        "INSERT INTO hookwire.source_offsets (source, partition, next_offset, end_offset, taken, reader, rate)"
        " SELECT 'stock', n, 10 * n, 10 * n + 5, 10 * n, 'hub-1', 2.5 FROM generate_series(0, 1) n"
    )


async def refuse(hub: RunningHub, offset: int, value: bytes, held_key: str | None = None) -> None:
    headers = json.dumps(["colour", base64.b64encode(b"red").decode()])
    await hub.sql(
        "INSERT INTO hookwire.source_refusals (source, partition, record_offset, reason, detail, key, value, headers,"
        " bytes, record_at, held_keys) VALUES ('stock', 0, $1, 'too_large', 'd', 'shoe', $2, $3, 9, '2026-01-01Z', $4)",
        offset, value, headers, held_key and [held_key],
    )  # fmt: skip


async def test_a_source_shows_how_far_each_partition_is_taken(running_hub: RunHub) -> None:
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        await refuse(hub, 3, b"x")
        (found,) = (await hub.client.get("/sources?limit=1")).json()["items"]
        alone = (await hub.client.get("/sources/stock")).json()
        shown = (await hub.client.get("/source-refusals/refusal_1")).json()
        missing = [(await hub.client.get(f"/sources/{name}")).status_code for name in ("other", "refusals/refusal_9")]
        await hub.sql("UPDATE hookwire.source_offsets SET last_record_at = now() - interval '1 h' WHERE partition = 1")
        old = (await hub.client.get("/sources/stock")).json()["age_seconds"]

    assert (alone, shown["value"], missing) == (found, "x", [404, 404])
    parts = [(one["partition"], one["next_offset"], one["lag"], one["reader"]) for one in found.pop("partitions")]
    assert parts == [(0, 0, 5, "hub-1"), (1, 10, 5, "hub-1")]
    assert (found.pop("age_seconds"), old >= 3600) == (None, True)
    of_doors = dict.fromkeys(("preset", "accepted_at", "refused_at"))
    known = {"source": "stock", "kind": "kafka", "topic": "stock.level", "paused": False, "lag": 10, "refused": 1}
    assert found == known | of_doors | {"rate": 5.0, "passed_over": [], "passed_over_count": 0}


@pytest.mark.parametrize(
    ("body", "moves", "offsets"),
    [
        ({}, [(0, 0, 5), (1, 10, 15)], [0, 10]),
        ({"partition": 1, "offset": 2, "dry_run": False}, [(1, 10, 2)], [0, 2]),
        ({"dry_run": False}, [(0, 0, 5), (1, 10, 15)], [5, 15]),
    ],
    ids=["dry run", "one partition", "to the end"],
)
async def test_a_reset_tells_its_moves_and_makes_them_only_when_asked(
    running_hub: RunHub, body: dict[str, Any], moves: list[tuple[int, ...]], offsets: list[int]
) -> None:
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        told = (await hub.client.post("/sources/stock/reset", json=body)).json()["moves"]
        rows = await hub.sql("SELECT next_offset FROM hookwire.source_offsets ORDER BY partition")
        audited = await hub.sql("SELECT count(*) FROM hookwire.audit WHERE action = 'source.reset'")

    assert ([tuple(move.values()) for move in told], [row[0] for row in rows]) == (moves, offsets)
    assert audited == [(0 if body.get("dry_run", True) else len(moves),)]


async def test_a_refused_record_is_published_after_all_or_forgotten(running_hub: RunHub) -> None:
    """One is still too large, one fits now, one is skipped; each of the two is audited."""
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        for offset, value in enumerate((b"x" * 101, b"fits", b"never")):
            await refuse(hub, offset, value)
        ids = [one["id"] for one in (await hub.client.get("/sources/stock/refusals")).json()["items"]]
        verbs = ("retry", "retry", "give-up", "give-up")
        answers = [
            await hub.client.post(f"/source-refusals/{id_}/{verb}", json={"reason": "why"})
            for id_, verb in zip([*ids, ids[2]], verbs, strict=True)
        ]
        events = await hub.sql("SELECT topic, key, payload, headers ->> 'colour', headers ->> 'x-kafka-offset', sinks"
                               " FROM hookwire.events WHERE topic = 'stock.level'")  # fmt: skip
        left = await hub.sql("SELECT record_offset FROM hookwire.source_refusals")
        audited = await hub.sql("SELECT action, subject, reason FROM hookwire.audit ORDER BY id")

    assert ([answer.status_code for answer in answers], left) == ([400, 200, 200, 404], [(0,)])
    assert events == [("stock.level", "shoe", b"fits", "red", "1", ["webhooks"])]
    assert audited == [("source.retry", "stock/0@1", "why"), ("source.give_up", "stock/0@2", "why")]


async def test_records_behind_a_settled_one_are_released_and_the_next_holder_is_named(running_hub: RunHub) -> None:
    """Those behind it cannot be settled before it; the last one is too large itself."""
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        for offset, value in enumerate((b"never", b"fits", b"x" * 101)):
            await refuse(hub, offset, value, "shoe")
        first, second, third = (await hub.client.get("/sources/stock/refusals")).json()["items"]
        early = await hub.client.post(f"/source-refusals/{second['id']}/retry")
        code, told, _ = await hookwire(hub, "sources", "skip", first["id"])
        events = await hub.sql("SELECT payload FROM hookwire.events WHERE topic = 'stock.level'")

    assert (first["holds"], early.status_code, f"{first['id']} holds its key" in early.text) == (True, 400, True)
    assert (code, events) == (0, [(b"fits",)])
    assert told.splitlines()[1:] == ["published behind it: 1", f"{third['id']} holds the key now: retry or skip it"]


async def test_refused_messages_of_a_queue_are_listed_and_published_after_all(running_hub: RunHub) -> None:
    """One is too large still, and the properties of one could not be read; it can only be skipped."""
    message = SourceMessage("e", "stock.sold", "m\0", "shoe", "0", "text/plain", {"colour": "red"}, b"fits", ("twice",))
    large = dataclasses.replace(message, body=b"x" * 101)
    refused = IntakeRefused("topic", "there is no topic")
    async with running_hub(**SETTINGS, amqp_sources="in stock", amqp_source_url="amqp://127.0.0.1:1") as hub:
        database = await open_database(PoolOptions(hub.database_url))
        for content in (message, large, None):
            body = b"?" if content is None else content.body
            await KeptMessages(database).keep(RefusedMessage("in stock", refused, body, content))
        await database.aclose()
        items = (await hub.client.get("/source-refusals")).json()["items"]
        code, told, _ = await hookwire(hub, "sources", "refusals")
        answers = [await hub.client.post(f"/source-refusals/{one['id']}/retry") for one in items]
        skipped = await hub.client.post(f"/source-refusals/{items[2]['id']}/give-up")
        events = await hub.sql("SELECT topic, key, payload, content_type, headers ->> 'colour', sinks"
                               " FROM hookwire.events WHERE topic NOT LIKE 'hookwire.%'")  # fmt: skip

    assert [(one["kind"], one["source"], one["offset"], one["key"]) for one in items] == [
        ("amqp", "in stock", None, "shoe"), ("amqp", "in stock", None, "shoe"), ("amqp", "in stock", None, None),
    ]  # fmt: skip
    assert (code, "in stock" in told) == (1, True)
    assert ([answer.status_code for answer in answers], skipped.status_code) == ([200, 400, 400], 200)
    assert events == [("stock.sold", "shoe", b"fits", "text/plain", "red", ["webhooks"])]


async def test_a_source_that_was_never_read_is_not_found(running_hub: RunHub) -> None:
    async with running_hub(**SETTINGS) as hub:
        answers = [await hub.client.post(f"/sources/other/{verb}") for verb in ("pause", "resume", "reset")]

    assert [answer.status_code for answer in answers] == [404, 404, 404]


async def test_the_command_lists_pauses_resets_and_settles(running_hub: RunHub) -> None:
    """Exit code 1 says that a record was refused."""
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        await refuse(hub, 0, b"fits")
        lines = ("pause stock", "list", "reset stock --partition 0", "refusals stock", "retry refusal_1", "skip 1")
        results = [await hookwire(hub, "sources", *line.split()) for line in lines]

    assert [code for code, _, _ in results] == [0, 1, 0, 1, 0, 2], results
    assert ("paused" in results[1][1], "partition 0 would go from 0 to 5" in results[2][1]) == (True, True)


async def test_a_list_of_refused_records_that_ends_at_its_limit_says_so(running_hub: RunHub) -> None:
    """KS-28: a source with as many refused records hid those of the others."""
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        for offset in range(2):
            await refuse(hub, offset, b"x")
        ends = [(await hookwire(hub, "sources", "refusals", "--limit", limit))[1].splitlines()[-1] for limit in "23"]

    words = "only the first 2 are listed: use --limit, or name a source"
    assert [end.startswith(words) for end in ends] == [True, False]


async def test_refused_records_are_listed_with_the_beginning_of_their_keys(running_hub: RunHub) -> None:
    """GS-03: a key may have a megabyte; the process read all of them for one page."""
    async with running_hub(**SETTINGS) as hub:
        await arrange(hub)
        await refuse(hub, 0, b"x")
        await hub.sql("UPDATE hookwire.source_refusals SET key = convert_to(repeat('k', 1000000), 'UTF8') RETURNING 1")
        rows = [
            await hub.sql(STATEMENTS["source.all_refusals"], 0, 9),
            await hub.sql(STATEMENTS["source.refusals"], "stock", 0, 9),
        ]
        (listed,) = (await hub.client.get("/source-refusals")).json()["items"]

    keys = [part for found in rows for row in found for part in row if isinstance(part, bytes)]
    assert ([len(key) for key in keys], listed["key"]) == ([1024, 1024], "k" * 1024)


async def test_a_source_that_nobody_reads_is_trouble_until_a_person_forgets_it(running_hub: RunHub) -> None:
    """GU-01: the process that read it was stopped, and `hookwire status` had no line of it and ended with 0."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.sql(
            "INSERT INTO hookwire.process_states (process, kind, name, state, reason, until)"
            " SELECT 'hub-7', 'source', name, 'left', '', now() - interval '2 days'"
            " FROM unnest('{shop/mail,shop-a}'::text[]) AS name"
        )
        await hub.until("/status", lambda found: found["verdict"] == "trouble")
        lines = [await hookwire(hub, "status")]
        acts = [await hookwire(hub, "sources", "forget", name) for name in ("shop/mail", "shop-*", "shop-*")]
        await hub.until("/status", lambda found: found["verdict"] == "ok")
        lines.append(await hookwire(hub, "status"))

    assert ([code for code, *_ in lines], lines[0][1].count("nobody reads it since")) == ([1, 0], 2)
    assert [code for code, *_ in acts] == [0, 0, 2], acts
