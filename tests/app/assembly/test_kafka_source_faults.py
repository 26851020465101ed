"""What is wrong with one endpoint, or one Kafka topic, holds up no other one."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
import structlog
from aiokafka.consumer.subscription_state import SubscriptionState

from scripts.servers.kafka import KafkaServer
from tests.app.assembly.test_kafka_sources import ROLES, send, stored
from tests.app.conftest import RunHub
from tests.hub.callback import answers, hang, serve_callbacks
from tests.relay.kafka.kafka_topic import READ, allow, deny, make_topic
from tests.waiting import until


async def test_a_bad_and_a_slow_endpoint_hold_up_neither_the_partition_nor_a_good_one(
    running_hub: RunHub, kafka: KafkaServer
) -> None:
    """KS-01, KS-02, KS-03, KS-04, KS-05: the good one gets each record once, in order per key; the offset goes on."""
    source = f"good-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with running_hub(ROLES, **named) as hub, serve_callbacks() as callbacks:
        callbacks.script |= {"/bad": answers(500), "/slow": hang}
        for path in ("/bad", "/slow", "/good"):
            await hub.subscribe(source, callbacks.url(path), ordered=True)
        await send(kafka, source, *({"key": b"k%d" % (n % 3), "value": b"%d" % n} for n in range(30)))

        async def are_taken() -> object:
            return await hub.sql("SELECT FROM hookwire.source_offsets WHERE next_offset = 30")

        async def have_arrived() -> object:
            return sum(path == "/good" for path, *_ in callbacks.posted) >= 30

        await until(are_taken)
        await until(have_arrived)
        bad = await hub.sql("SELECT DISTINCT outcome FROM hookwire.attempts WHERE status = 500")

    lanes: dict[int, list[int]] = defaultdict(list)
    for path, _, body in callbacks.posted:
        if path == "/good":
            lanes[int(body) % 3].append(int(body))
    assert lanes == {lane: list(range(lane, 30, 3)) for lane in range(3)}
    assert len(bad) == 1


def told(logs: Sequence[Mapping[str, Any]], event: str) -> list[Mapping[str, Any]]:
    return [one for one in logs if one["event"] == event]


@pytest.mark.slow
async def test_a_topic_that_may_not_be_read_any_more_waits_by_name_and_others_go_on(
    running_hub: RunHub, strict_kafka: KafkaServer
) -> None:
    """KS-15: once it may be read again, it goes on where it was. Until then no line says so."""
    closed, other = (f"{name}-{secrets.token_hex(4)}" for name in ("closed", "other"))
    for name in (closed, other):
        await make_topic(strict_kafka.bootstrap, name, 1)
        await send(strict_kafka, name, {"value": b"1"})
    wanted = ",".join(f"{name}?start=earliest" for name in (closed, other))
    named = {"kafka_source_servers": strict_kafka.bootstrap, "kafka_sources": wanted}
    with structlog.testing.capture_logs() as logs:
        async with running_hub(ROLES, **named) as hub:
            await stored(hub, closed, 1)
            await deny(strict_kafka.bootstrap, closed, READ)
            await until(lambda: len(told(logs, "kafka_source_waits")) >= 3)
            wrong = told(logs, "kafka_source_goes_on")
            for name in (closed, other):
                await send(strict_kafka, name, {"value": b"2"})
            others = await stored(hub, other, 2)
            await allow(strict_kafka.bootstrap, closed, READ)
            found = await stored(hub, closed, 2)

    waits = {one["source"] for one in told(logs, "kafka_source_waits")}
    assert (waits, others, found) == ({closed}, [(None, b"1"), (None, b"2")], [(None, b"1"), (None, b"2")])
    assert wrong == []


async def test_a_process_without_a_partition_takes_over_however_long_it_has_waited(
    running_hub: RunHub, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KS-01: the client left the group after five idle minutes, for ever. Idle time runs 400 times as fast here."""
    idle, seen = SubscriptionState.fetcher_idle_time, [0.0]

    def in_a_hurry(self: SubscriptionState) -> float:
        seen.append(400 * idle.fget(self))
        return seen[-1]

    monkeypatch.setattr(SubscriptionState, "fetcher_idle_time", property(in_a_hurry))
    source = f"spare-{secrets.token_hex(4)}"
    await make_topic(kafka.bootstrap, source, 1)
    named = {"kafka_source_servers": kafka.bootstrap, "kafka_sources": f"{source}?start=earliest"}
    async with AsyncExitStack() as spare:
        async with running_hub(ROLES, **named) as first:
            await send(kafka, source, {"value": b"1"})
            await stored(first, source, 1)
            hub = await spare.enter_async_context(running_hub(ROLES, **named))
            await until(lambda: max(seen) > 600 or len(seen) > 12)  # or the second has taken the partition already
        await send(kafka, source, {"value": b"2"})
        found = await stored(hub, source, 2)

    assert found == [(None, b"1"), (None, b"2")]
