"""A database that was restored from a backup, or cloned, while Kafka's progress marker moved on (F59)."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient, ClientAnswer
from app.chaos.scenario import scenario_settings
from scripts.servers.kafka import KafkaServer
from tests.faults.harness import CALM, CLEAN, Kafka, open_harness
from tests.programs import program
from tests.relay.kafka.kafka_topic import read_committed
from tests.waiting import until

TOPIC = "restored.events"


def backup(database_url: str, folder: Path) -> Path:
    """What pg_dump makes of it while it is in use."""
    file = folder / "backup.dump"
    program(database_url, "pg_dump", "--format=custom", f"--file={file}", database_url)
    return file


@asynccontextmanager
async def restored(file: Path, database_url: str) -> AsyncIterator[str]:
    """The URL of a new database on the same server with what the backup has; dropped afterwards."""
    name = f"{urlsplit(database_url).path[1:]}_restored"
    url = urlunsplit(urlsplit(database_url)._replace(path=f"/{name}"))
    server = await asyncpg.connect(database_url)
    try:
        await server.execute(f"CREATE DATABASE {name}")
        await asyncio.to_thread(program, url, "pg_restore", "--exit-on-error", f"--dbname={url}", file)
        yield url
    finally:
        await server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await server.close()


async def confirm(database_url: str) -> None:
    """What the page on restoring says: a new name, and a jump ahead. A relay that the backup names counts as alive for
    some seconds; the command then tells to run it again after a minute.
    """
    command = [sys.executable, "-m", "app.cli", "reincarnate", "--yes"]
    environment = {**os.environ, "HOOKWIRE_DATABASE_URL": database_url}

    async def is_confirmed() -> bool:
        return (await asyncio.to_thread(subprocess.run, command, env=environment, timeout=120)).returncode == 0

    await until(is_confirmed, 120)


async def ask(child: Child, method: str, path: str, body: bytes = b"") -> ClientAnswer:
    client = ChaosClient(child.port, 10)
    try:
        return await client.request(method, path, body)
    finally:
        client.close()


async def kafka_of(child: Child, state: str, seconds_max: float = 60.0) -> dict[str, Any]:
    """What /readyz says of the Kafka sink once it is in this state, and the webhooks go on: no marker concerns them."""

    async def reached() -> dict[str, Any] | None:
        found: dict[str, Any] = json.loads((await ask(child, "GET", "/readyz")).body)
        kafka, webhooks = found["sinks"]["kafka"], found["sinks"]["webhooks"]
        has_it = found["status"] != "starting" and (kafka["state"], webhooks["state"]) == (state, "leading")
        return {"ready": found["status"], **kafka} if has_it else None

    answer: dict[str, Any] = await until(reached, seconds_max)
    return answer


@pytest.mark.slow
async def test_a_restored_database_sends_nothing_to_kafka_until_it_is_confirmed_and_the_original_goes_on(
    database_url_both: str, kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    """RU-17, RP-10, RR-06, F59: I1 I3 I4=0; it is started beside the original, as a clone might be by mistake."""
    broker = Kafka(kafka.bootstrap)
    async with open_harness(database_url_both, tmp_path, seed, broker, processes=1, **CALM) as harness:
        async with harness.scenario.load():
            await harness.accepts(100)
        await harness.scenario.quiet(60)
        file = await asyncio.to_thread(backup, database_url_both, tmp_path)
        async with harness.scenario.load():
            await harness.accepts(100)
        await harness.scenario.quiet(60)  # now the marker is ahead of the backup
        async with restored(file, database_url_both) as url:
            clone = Child("clone", tmp_path, scenario_settings(replace(harness.scenario.options, database_url=url)))
            try:
                await clone.start()
                answer = await ask(clone, "POST", f"/topics/{TOPIC}/events?key=k", b"after the restore")
                refused = await kafka_of(clone, "refused")
                async with harness.scenario.load():
                    await harness.accepts(100)
                verdict = await harness.concluded(duplicates_max=0)
                before = await read_committed(broker.bootstrap, broker.prefix + TOPIC)
                still = await kafka_of(clone, "refused")

                await clone.drain(seconds_max=60)
                await confirm(url)
                await clone.start()
                await kafka_of(clone, "leading")
                after = await until(lambda: read_committed(broker.bootstrap, broker.prefix + TOPIC))
            finally:
                await clone.end()
        print(f"seed {seed}, the clone: {refused['error']}")
    assert (verdict, answer.status, before) == (CLEAN, 202, [])
    assert (still, refused["ready"]) == (refused, "degraded")
    assert re.fullmatch(r"kafka has committed batch \d+, .* only \d+: it was restored or cloned; .*", refused["error"])
    assert [message.value for message in after] == [b"after the restore"]
