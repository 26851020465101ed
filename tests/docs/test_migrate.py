"""How-to "migrate from goharvest", followed on a table filled by goharvest-shaped writes, on real servers (RO-12)."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from scripts.servers.postgres import system_bin_dir
from tests.relay.kafka_topic import make_topic, read_committed
from tests.relay.stage import until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-from-goharvest.md"
BLOCK = re.compile(
    r"^```(sh|sql) follow( background| export)?\n(.*?)^```\n(?:<!-- (?:expect|background): (.*?) -->\n)?", re.M | re.S
)
EXPORT = re.compile(r"^export (\w+)=(.*)$", re.MULTILINE)
STASHER = (
    "INSERT INTO outbox (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)"
    " VALUES (NOW(), $1, $2, $3, $4, $5)"
)
INIT_OUTBOX = """
CREATE TABLE outbox (
    id bigserial PRIMARY KEY, create_time timestamp with time zone NOT NULL, kafka_topic varchar(249) NOT NULL,
    kafka_key varchar(100) NOT NULL, kafka_value varchar(10000), kafka_header_keys text[] NOT NULL,
    kafka_header_values text[] NOT NULL, leader_id uuid)
"""
REAPER = """
harvest:
  baseKafkaConfig:
    bootstrap.servers: {kafka}
  leaderTopic: shop.neli
  leaderGroupID: shop
  dataSource: host={host} port={port} user={user} password='' dbname={name} sslmode=disable
  outboxTable: outbox
  limits:
    markQueryRecords: 150
    sendBuffer: 10
logging:
  level: Info
"""
KEYS = [f"key-{number}" for number in range(8)]


class Shop:
    """A folder with the user's `reaper.yaml`, a database with goharvest's table, and what the page does to it."""

    def __init__(self, folder: Path, url: str, kafka: str, sql: asyncpg.Connection) -> None:
        self.folder = folder
        self.url = url
        self.kafka = kafka
        self.sql = sql
        self.relays: list[asyncio.subprocess.Process] = []
        self.exported: dict[str, str] = {}

    def environment(self) -> dict[str, str]:
        """What the page has told to set so far, with the values of this shop, and nothing else."""
        path = f"{Path(sys.executable).parent}:{system_bin_dir()}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "HOOKWIRE_DATA_DIR": str(self.folder), **self.exported}

    def export(self, text: str) -> None:
        """A block of `export` lines."""
        values = {"HOOKWIRE_DATABASE_URL": self.url, "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": self.kafka}
        self.exported |= {name: values.get(name, value) for name, value in EXPORT.findall(text)}

    async def output(self, *command: str) -> str:
        child = await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env=self.environment(), stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        written, _ = await child.communicate()
        assert child.returncode == 0, written.decode()
        return written.decode()

    async def follow(self, language: str, text: str) -> str:
        if language == "sh":
            return await self.output("bash", "-euc", text)
        return await self.output("psql", self.url, "-X", "-v", "ON_ERROR_STOP=1", "-c", text)

    async def start(self, text: str, expected: str) -> None:
        """Begins a block in the background; returns when it has printed what is expected."""
        number = len(self.relays)
        with self._log(number).open("wb") as log:
            self.relays += [
                await asyncio.create_subprocess_exec(
                    "bash", "-euc", f"exec {text}", cwd=self.folder, env=self.environment(), stdout=log, stderr=log
                )
            ]
        async with asyncio.timeout(60):
            while not re.search(expected, self._log(number).read_text()):
                assert self.relays[number].returncode is None, self.logs()
                await asyncio.sleep(0.05)

    async def end(self) -> list[int]:
        """A soft stop of all; their exit codes."""
        for relay in self.relays:
            relay.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            return [await relay.wait() for relay in self.relays]

    def _log(self, number: int) -> Path:
        return self.folder / f"relay-{number}.log"

    def logs(self) -> str:
        return "".join(self._log(number).read_text() for number in range(len(self.relays)))


@asynccontextmanager
async def opened(folder: Path, url: str, kafka: str) -> AsyncIterator[Shop]:
    sql = await asyncpg.connect(url)
    shop = Shop(folder, url, kafka, sql)
    at = urlsplit(url)
    values = {"kafka": kafka, "host": at.hostname, "port": at.port, "user": at.username, "name": at.path[1:]}
    (folder / "reaper.yaml").write_text(REAPER.format(**values))
    await sql.execute(f"DROP SCHEMA hookwire CASCADE; {INIT_OUTBOX}")
    try:
        yield shop
    finally:
        for relay in shop.relays:
            if relay.returncode is None:
                relay.kill()
                await relay.wait()
        await sql.close(timeout=5)


async def written(shop: Shop, topic: str) -> None:
    """300 records of goharvest's stasher; a goharvest that is gone has marked the first hundred."""
    for number in range(300):
        key = KEYS[number % len(KEYS)]
        await shop.sql.execute(STASHER, topic, key, None if number % 10 == 0 else f"{number}", ["Seq"], [f"{number}"])
    await shop.sql.execute("UPDATE outbox SET leader_id = gen_random_uuid() WHERE id <= 100")


async def test_the_page_is_followed_to_its_end(tmp_path: Path, database_url15: str, kafka: object) -> None:
    """RO-12: the topic holds every record in order per key, on goharvest's partitions, with its headers and nulls."""
    bootstrap: str = kafka.bootstrap  # type: ignore[attr-defined]
    topic, pump, moved = (f"{what}.{tmp_path.name}.{os.getpid()}" for what in ("shop", "pump", "moved"))
    for name in (topic, pump, moved):
        await make_topic(bootstrap, name, partitions=3)
    async with opened(tmp_path, database_url15, bootstrap) as shop:
        await written(shop, topic)
        for language, kind, text, expected in BLOCK.findall(PAGE.read_text()):
            block = text.replace("--topic pump", f"--topic {pump}")
            if kind == " export":
                shop.export(block)
            elif kind == " background":
                await shop.start(block, expected)
            else:
                output = await shop.follow(language, block)
                assert re.search(expected, output, re.DOTALL), output
        await shop.sql.execute(STASHER, moved, "ada", "as before", ["Seq"], ["1"])

        async def carried() -> bool:
            return not await shop.sql.fetchval("SELECT count(*) FROM hookwire.outbox")

        await until(carried)
        assert (await shop.end(), "Traceback" in shop.logs()) == ([0, 0], False)
    messages = await read_committed(bootstrap, topic)
    per_key = {key: [int(m.headers["Seq"]) for m in messages if m.key == key.encode()] for key in KEYS}
    assert per_key == {key: list(range(number, 300, len(KEYS))) for number, key in enumerate(KEYS)}
    assert {(m.key, m.partition) for m in messages} == {(k.encode(), zlib.crc32(k.encode()) % 3) for k in KEYS}
    assert all((m.value is None) == (int(m.headers["Seq"]) % 10 == 0) for m in messages)
    [after] = await read_committed(bootstrap, moved)
    assert (after.key, after.partition, after.value) == (b"ada", zlib.crc32(b"ada") % 3, b"as before")
    assert after.headers["seq"] == "1"


def test_psql_is_there() -> None:
    assert shutil.which("psql", path=str(system_bin_dir())) is not None


@pytest.mark.parametrize("word", ["sh follow", "sql follow"])
def test_the_page_has_blocks_to_follow(word: str) -> None:
    assert f"```{word}\n" in PAGE.read_text()
