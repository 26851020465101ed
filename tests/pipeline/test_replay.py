"""Replays of the lake through the hub's front door (PL-07, PL-A12)."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.cli.failure import CommandFailed
from app.cli.hub_client import connected
from app.cli.pipeline.replay import send_all
from app.cli.pipeline.resend import Resender, Sent
from pipeline.lake import bronze
from pipeline.selection import ArchivedEvent
from pipeline.storage import LakeStorage
from tests.app.conftest import RunHub, RunningHub, running_hub
from tests.pipeline.foreign import batch, row

__all__ = ["running_hub"]

EVENT = ArchivedEvent("evt_abcd2345_1", 1, "shop.orders", "a", None, {}, b"x")


def some(*numbers: int, **changes: Any) -> list[ArchivedEvent]:
    return [replace(EVENT, event_id=f"evt_abcd2345_{n}", number=n, payload=b"%d" % n, **changes) for n in numbers]


async def resent(hub: RunningHub, *batches: Sequence[ArchivedEvent], to: str | None = None) -> Sent:
    async with connected() as client:
        resender = Resender(client, hub.url, "shop.", to, None)
        for batch in batches:
            await resender.send(batch)
    return resender.sent


async def stored(hub: RunningHub) -> list[tuple[str, str | None, bytes]]:
    return await hub.sql("SELECT topic, key, payload FROM hookwire.events ORDER BY id")


async def test_events_are_published_again_in_order_and_marked(running_hub: RunHub) -> None:
    """PL-07: under the topic without Kafka's prefix, with key, content type, CloudEvents attributes and the mark."""
    attributes = {"ce-id": "4711", "ce-source": "/caf\u00e9", "ce-type": "made", "ce-specversion": "1.0"}
    (event,) = some(9, key="b", content_type="text/plain", attributes=attributes)
    async with running_hub() as hub:
        sent = await resent(hub, [*some(*range(1, 9)), event])
        rows = await stored(hub)
        headers = await hub.sql("SELECT content_type, headers FROM hookwire.events WHERE key = 'b'")
    assert (sent, [row for row in rows if row[1] == "a"]) == (
        Sent(published=9),
        [("orders", "a", b"%d" % n) for n in range(1, 9)],
    )
    assert [(kind, json.loads(text)) for kind, text in headers] == [
        ("text/plain", {**attributes, "replay-of": "evt_abcd2345_9"})
    ]


async def test_a_replay_that_is_repeated_publishes_nothing_twice(running_hub: RunHub) -> None:
    """PL-07: the Idempotency-Key is the old event's id; another topic is another event."""
    async with running_hub() as hub:
        sent = await resent(hub, some(1, 2), some(2, 3))
        elsewhere = await resent(hub, some(1), to="orders.rebuilt")
        rows = await stored(hub)
    assert (sent, elsewhere) == (Sent(published=3, again=1), Sent(published=1))
    assert [(topic, payload) for topic, _, payload in rows][-1] == ("orders.rebuilt", b"1")


async def test_what_the_hub_refuses_is_counted_and_stops_nothing(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        sent = await resent(hub, [*some(1, topic="shop.a..b"), *some(2, content_type="application/x-ndjson"), *some(3)])
    assert (sent.published, sent.refused_count) == (1, 2)
    assert {event_id for event_id, _ in sent.refused} == {"evt_abcd2345_1", "evt_abcd2345_2"}


async def test_a_hub_that_is_away_ends_the_replay(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.pipeline.resend._PAUSES_SECONDS", (0.0,))
    async with connected() as client:
        with pytest.raises(CommandFailed) as failed:
            await Resender(client, f"http://127.0.0.1:{free_port}", "", None, None).send(some(1))
    assert failed.value.code == 3


async def test_an_interrupted_replay_of_the_lake_goes_on_where_it_was(
    spark: SparkSession, lake_uri: str, running_hub: RunHub
) -> None:
    """PL-07: noted after each batch, in the lake."""
    lake = LakeStorage(lake_uri)
    batch(bronze(lake), *(row(n, value=b"%d" % n) for n in range(1, 5)))
    asked: dict[str, Any] = {"topic": "orders", "keys": [], "event_ids": [], "since": None, "until": None, "lost": None}
    async with running_hub() as hub, connected() as client:
        resender = Resender(client, hub.url, "", None, None)
        await send_all(hub.settings, resender, lake, "first", {**asked, "above": 2}, hub.url)
        rows = await stored(hub)
    assert (resender.sent, [payload for *_, payload in rows]) == (Sent(published=2), [b"3", b"4"])
    assert json.loads(lake.read("replays/first.json"))["asked"]["above"] == 4


async def test_a_replay_of_lost_events_that_is_done_has_nothing_to_go_on_with(
    lake_uri: str, running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-07: killed behind its last note and resumed, it must not take an empty rest for the whole lake."""
    monkeypatch.setattr("app.cli.pipeline.replay._of_lake", lambda *_: iter(some(1, 2)))
    asked: dict[str, Any] = {"topic": None, "keys": [], "event_ids": [], "since": None, "until": None, "lost": []}
    async with running_hub() as hub, connected() as client:
        resender = Resender(client, hub.url, "", None, None)
        await send_all(hub.settings, resender, LakeStorage(lake_uri), "first", asked, hub.url)
    assert resender.sent == Sent()


async def test_what_an_audit_found_lost_is_published_from_the_hub(running_hub: RunHub, tmp_path: Path) -> None:
    """PL-A12."""
    async with running_hub() as hub:
        lost = (await hub.publish("orders", b"\xff", hookwire_key="a")).json()["id"]
        report = tmp_path / "audit.json"
        report.write_text(json.dumps({"findings": [{"fault": "lost", "examples": [lost]}]}))
        command = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("hookwire"), "pipeline", "replay", "--lost", report, "--url", hub.url,
            "--lake", tmp_path / "lake", "--json", stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await command.communicate()
        rows = await stored(hub)
    assert (command.returncode, json.loads(output)["published"], rows) == (0, 1, [("orders", "a", b"\xff")] * 2)
