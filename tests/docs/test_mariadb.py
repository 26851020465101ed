"""`docs/how-to/mariadb.md` is followed to its end, with a real MariaDB and a real Kafka."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import aiomysql
import pytest

from scripts.servers.kafka import KafkaServer
from tests.relay.goharvest.harness import connected
from tests.relay.kafka.kafka_topic import make_topic, read_committed
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "mariadb.md"
BLOCK = re.compile(r"^```(sh|sql) follow( background)?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


async def query(sql: aiomysql.Connection, text: str) -> list[tuple[object, ...]]:
    """The last statement's rows."""
    rows: list[tuple[object, ...]] = []
    for statement in filter(str.strip, text.split(";\n")):
        async with sql.cursor() as cursor:
            await cursor.execute(statement)
            rows = list(await cursor.fetchall())
    return rows


@pytest.mark.parametrize("mode", ["compat", "fast"])
async def test_the_page_is_followed_to_its_end(tmp_path: Path, mariadb_url: str, kafka: KafkaServer, mode: str) -> None:
    """What was committed arrives in order, with headers and a tombstone; a signal ends the relay in an orderly way."""
    topic = f"shop.{tmp_path.name}.{os.getpid()}"
    await make_topic(kafka.bootstrap, topic, partitions=3)
    sql = await connected(mariadb_url)
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOOKWIRE_OUTBOX_URL": mariadb_url,
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap, "HOOKWIRE_DATA_DIR": str(tmp_path),
        "HOOKWIRE_OUTBOX_MODE": mode,
    }  # fmt: skip
    log = tmp_path / "relay.log"
    relay = None
    try:
        for language, background, text in BLOCK.findall(PAGE.read_text()):
            if language == "sql":
                await query(sql, text.replace("shop.orders", topic))
            elif background:
                with log.open("wb") as output:
                    relay = await asyncio.create_subprocess_exec(
                        "bash", "-euc", f"exec {text}", cwd=tmp_path, env=environment, stdout=output, stderr=output
                    )
                await until(lambda: re.search("LeaderAcquired|Traceback|refused", log.read_text()))

        async def emptied() -> bool:
            return await query(sql, "SELECT COUNT(*) FROM outbox") == [(0,)]

        await until(emptied)
        assert relay is not None
        relay.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            code = await relay.wait()
    finally:
        if relay is not None and relay.returncode is None:
            relay.kill()
            await relay.wait()
        sql.close()
    messages = [(m.key, m.value, m.headers) for m in await read_committed(kafka.bootstrap, topic)]
    assert messages == [(b"ada", b'{"order": 1}', {"content-type": "application/json"}), (b"ada", None, {})]
    printed = log.read_text()
    assert (code, "Traceback" in printed, "hookwire:secret" in printed) == (0, False, False)
