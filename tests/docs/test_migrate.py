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
from tests.relay.kafka.kafka_topic import make_topic, read_committed
from tests.waiting import lasts, until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-from-goharvest.md"
BLOCK = re.compile(
    r"^```(sh|sql) follow( background| export)?\n(.*?)^```\n(?:<!-- (?:expect|background): (.*?) -->\n)?"
    r"|^<!-- (stop): all -->\n", re.M | re.S
)  # fmt: skip
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

        def is_said() -> bool:
            assert self.relays[number].returncode is None, self.logs()
            return re.search(expected, self._log(number).read_text()) is not None

        await until(is_said)

    async def stop(self) -> None:
        """A soft stop of all that runs."""
        running = [relay for relay in self.relays if relay.returncode is None]
        for relay in running:
            relay.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert {await relay.wait() for relay in running} == {0}, self.logs()

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
        await sql.close(timeout=60)


class Writer:
    """Writes as goharvest's stasher does, with the same words all the while; ``count`` records are committed."""

    def __init__(self, sql: asyncpg.Connection, topic: str) -> None:
        self.count = 0
        self._sql = sql
        self._topic = topic

    async def write(self) -> None:
        n = self.count
        value = None if n % 10 == 0 else f"{n}"
        await self._sql.execute(STASHER, self._topic, KEYS[n % len(KEYS)], value, ["Seq"], [f"{n}"])
        self.count += 1

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """While the block runs, some two hundred records a second, so that the table is hardly ever empty."""
        stopping = asyncio.Event()

        async def go_on() -> None:
            while not stopping.is_set():
                await self.write()
                await lasts(0.005)

        async with asyncio.TaskGroup() as group:
            group.create_task(go_on())
            try:
                yield
            finally:
                stopping.set()


@asynccontextmanager
async def writer_of(shop: Shop, topic: str) -> AsyncIterator[Writer]:
    """It has written 300 records; a goharvest that is gone has marked the first hundred."""
    sql = await asyncpg.connect(shop.url)
    try:
        writer = Writer(sql, topic)
        for _ in range(300):
            await writer.write()
        await sql.execute("UPDATE outbox SET leader_id = gen_random_uuid() WHERE id <= 100")
        yield writer
    finally:
        await sql.close(timeout=60)


async def follow_all(shop: Shop, pump: str) -> None:
    """The page's blocks in their order, each held to what stands behind it."""
    for language, kind, text, expected, stop in BLOCK.findall(PAGE.read_text()):
        block = text.replace("--topic pump", f"--topic {pump}")
        if stop:
            await shop.stop()
        elif kind == " export":
            shop.export(block)
        elif kind == " background":
            await shop.start(block, expected)
        else:
            output = await shop.follow(language, block)
            assert re.search(expected, output, re.DOTALL), output


async def test_the_page_is_followed_to_its_end(tmp_path: Path, database_url15: str, kafka: object) -> None:
    """RO-12: while a writer goes on, the topic gets every record once, in order per key, on goharvest's partitions,
    with its headers; those from before the move of the writers have their nulls as well."""
    bootstrap: str = kafka.bootstrap  # type: ignore[attr-defined]
    topic, pump = (f"{what}.{tmp_path.name}.{os.getpid()}" for what in ("shop", "pump"))
    for name in (topic, pump):
        await make_topic(bootstrap, name, partitions=3)
    async with opened(tmp_path, database_url15, bootstrap) as shop, writer_of(shop, topic) as writer:
        async with writer.writing():
            await follow_all(shop, pump)

        async def carried() -> bool:
            return not await shop.sql.fetchval("SELECT count(*) FROM hookwire.outbox")

        await until(carried)
        await shop.stop()
        assert "Traceback" not in shop.logs()
        moved = await shop.sql.fetchval("SELECT count(*) FROM hookwire.events WHERE topic = $1", topic)
    messages = [
        (m, {name.lower(): value for name, value in m.headers.items()}) for m in await read_committed(bootstrap, topic)
    ]
    per_key = {key: [int(headers["seq"]) for m, headers in messages if m.key == key.encode()] for key in KEYS}
    assert per_key == {key: list(range(number, writer.count, len(KEYS))) for number, key in enumerate(KEYS)}
    assert {(m.key, m.partition) for m, _ in messages} == {(k.encode(), zlib.crc32(k.encode()) % 3) for k in KEYS}
    assert 0 < moved < writer.count
    for message, headers in messages:
        n = int(headers["seq"])
        null = None if n < writer.count - moved else b""
        assert message.value == (null if n % 10 == 0 else str(n).encode())
        assert ("Seq" in message.headers) == (n < writer.count - moved)


def test_psql_is_installed_for_the_page() -> None:
    assert shutil.which("psql", path=str(system_bin_dir())) is not None


@pytest.mark.parametrize("word", ["sh follow", "sql follow"])
def test_the_page_has_blocks_to_follow(word: str) -> None:
    assert f"```{word}\n" in PAGE.read_text()
