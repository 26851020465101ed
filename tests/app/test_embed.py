"""The relay of our own outbox as an object in another program."""

import asyncio
import os
import sys
from pathlib import Path

import asyncpg
import pytest

from app.embed import open_relay
from app.settings.settings import Settings, SettingsRefused
from relay.observer import Event, LeaderAcquired, LeaderRevoked, MeterRead
from tests.relay.harness import publish
from tests.waiting import until


async def test_a_program_embeds_the_relay_and_is_told_who_leads(database_url: str, tmp_path: Path) -> None:
    """RU-14: start, stop, wait, state, is_leader, leader ids, in-flight counts and keys; the events and the meter."""
    settings = Settings.model_validate({"database_url": database_url, "data_dir": tmp_path, "listen": "127.0.0.1:0"})
    events: list[Event] = []
    sql = await asyncpg.connect(database_url)
    try:
        async with open_relay(settings, events.append) as relay:
            before = (relay.state, relay.is_leader)
            await relay.start()
            await until(lambda: relay.is_leader)
            await publish(sql, ["a", "b", None])

            async def carried() -> bool:
                return not await sql.fetchval("SELECT count(*) FROM hookwire.outbox WHERE sink = 'webhooks'")

            await until(carried)
            led = set(relay.leader_ids)
            during = relay.state
            relay.stop()
            await relay.wait()
            after = (relay.state, relay.is_leader, relay.in_flight_records, relay.in_flight_keys)
    finally:
        await sql.close()
    assert (before, during, after) == (("created", False), "running", ("stopped", False, 0, set()))
    acquired = {event.leader_id for event in events if isinstance(event, LeaderAcquired)}
    revoked = {event.leader_id for event in events if isinstance(event, LeaderRevoked)}
    assert (led <= acquired, revoked) == (True, acquired)
    assert max(event.total for event in events if isinstance(event, MeterRead)) == 3


async def test_the_example_publishes_and_relays_in_one_process(database_url: str, tmp_path: Path) -> None:
    """FM-10."""
    example = Path(__file__).parents[2] / "examples" / "embedded-relay" / "service.py"
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(example.parents[2]), "HOOKWIRE_DATABASE_URL": database_url,
        "HOOKWIRE_DATA_DIR": str(tmp_path),
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, example, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    sql = await asyncpg.connect(database_url)
    try:
        first = await asyncio.wait_for(process.stdout.readline(), 60)

        async def carried() -> bool:
            return bool(
                await sql.fetchval(
                    "SELECT EXISTS (SELECT FROM hookwire.events WHERE topic = 'orders.created')"
                    " AND NOT EXISTS (SELECT FROM hookwire.outbox)"
                )
            )

        await until(carried)
        process.terminate()
        rest = (await process.stdout.read()).decode()
        code = await asyncio.wait_for(process.wait(), 60)
    finally:
        await sql.close()

    assert (b"LeaderAcquired" in first, rest.splitlines()[-1], code) == (True, "stopped", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka_bootstrap_servers": "127.0.0.1:1", "kafka_sasl_username": "u"},
        {"kafka_bootstrap_servers": "127.0.0.1:1", "kafka_security_protocol": "SSL", "kafka_tls_ca": "absent.pem"},
        {"amqp_url": "amqps://127.0.0.1:1/", "amqp_tls_ca": "absent.pem"},
    ],
    ids=["half of a login", "no file for Kafka", "no file for AMQP"],
)
async def test_settings_of_a_broker_that_cannot_work_end_the_start(
    database_url: str, tmp_path: Path, wrong: dict[str, str]
) -> None:
    """And no event is routed to it. They ended the relay by a traceback, once it had been elected."""
    settings = Settings.model_validate({"database_url": database_url, "data_dir": tmp_path, **wrong})
    with pytest.raises(SettingsRefused, match=r"HOOKWIRE_(KAFKA|AMQP)_"):
        async with open_relay(settings):
            pass
    sql = await asyncpg.connect(database_url)
    try:
        names = await sql.fetchval("SELECT array_agg(name ORDER BY name) FROM hookwire.sinks WHERE configured")
        assert names == ["jobs", "webhooks"]
    finally:
        await sql.close()
