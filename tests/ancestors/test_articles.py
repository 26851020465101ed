"""Programs written from the articles on queues and tasks, and from RabbitHub's README, exchanged with ours."""

from __future__ import annotations

import ast
import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import pytest

from scripts.servers.rabbitmq import RabbitServer
from tests.ancestors.harness import HERE
from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.web.test_rabbithub import X
from tests.contract.queues.places import ByAiomysql, address
from tests.waiting import until

WORKER = HERE.parents[1] / "examples" / "tasks-by-amqp" / "worker.py"
PROGRAMS = [*sorted((HERE / "articles").glob("*.py")), WORKER]


@asynccontextmanager
async def running(path: Path, *words: object) -> AsyncIterator[asyncio.StreamReader]:
    """The lines of a program, which is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, path, *map(str, words), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line(lines: asyncio.StreamReader) -> str:
    async with asyncio.timeout(60):
        return (await lines.readline()).decode().strip()


async def ended(path: Path, *words: object) -> list[str]:
    async with running(path, *words) as lines, asyncio.timeout(60):
        return (await lines.read()).decode().splitlines()


async def purge(server: RabbitServer, queue: str) -> None:
    """Delete what other tests have left in a queue."""
    async with await aio_pika.connect(server.url) as connection, connection.channel() as channel:
        await (await channel.declare_queue(queue, durable=True)).purge()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_of_an_article_knows_no_hookwire(path: Path) -> None:
    """GM-13: it names its paragraph, and imports the standard library and drivers."""
    tree = ast.parse(path.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        (one.module or "").split(".")[0] if isinstance(one, ast.ImportFrom) else one.names[0].name.split(".")[0]
        for one in imports
    }
    about = ast.get_docstring(tree) or ""

    assert modules <= sys.stdlib_module_names | {"pymysql", "pika", "psycopg"}
    assert "paragraph" in about or "README" in about


@pytest.mark.parametrize("submits", ["ours", "article's"])
async def test_the_articles_queue_and_ours_are_one(mariadb_url: str, submits: str) -> None:
    """GM-03, JB-86: the one submits, the other receives and accepts, in the same table."""
    async with AsyncExitStack() as connections:
        place = ByAiomysql(mariadb_url, connections)
        await place.prepare()
        program, at = HERE / "articles" / "message_queue.py", address(mariadb_url)
        named = at["host"], at["port"], at["user"], at["password"], urlsplit(mariadb_url).path[1:], "q"
        if submits == "ours":
            await place.submit(b"1", b"2", b"3")
            taken = await ended(program, "work", *named, 3)
        else:
            await ended(program, "submit", *named, "1", "2", "3")
            messages = await place.receive(9)
            taken = [message.payload.decode() for message in messages]
            await place.accept(messages)
        left = await place.count()

    assert (taken, left) == (["1", "2", "3"], 0)


async def test_the_articles_worker_takes_tasks_of_the_hub_from_amqp(
    running_hub: RunHub, rabbitmq: RabbitServer
) -> None:
    """GM-13, GM-04: by pika and psycopg; the ids are those of a plain INSERT, and the rows are gone afterwards."""
    exchange = f"tasks-{secrets.token_hex(4)}"
    await purge(rabbitmq, "task_queue")
    async with running_hub(ALL_ROLES, amqp_url=rabbitmq.url, amqp_exchange=exchange) as hub, AsyncExitStack() as stack:
        lines = await stack.enter_async_context(running(WORKER, hub.database_url, rabbitmq.url))
        ready = await line(lines)
        for number in range(2):
            await hub.sql(f"INSERT INTO hookwire.tasks (description) VALUES ('mytask {number}')")
        worked = sorted([await line(lines), await line(lines)])

        async def gone() -> bool:
            return await hub.sql("SELECT count(*) FROM hookwire.tasks") == [(0,)]

        await until(gone)

    assert (ready, worked) == ("ready", ["mytask 0", "mytask 1"])


async def test_rabbithubs_clients_speak_to_the_hub(running_hub: RunHub) -> None:
    """GM-10, RH-03, RH-06, RH-19, RH-22: a publisher and a subscriber, written from RabbitHub's README."""
    async with running_hub(ALL_ROLES) as hub:
        base, articles = f"{hub.url}/rabbithub", HERE / "articles"
        await hub.client.put(f"{X}/site", params={"amqp.exchange_type": "topic"})
        async with running(articles / "rabbithub_subscriber.py", base, "site", "push.#") as lines:
            subscribed = await line(lines)
            published = await ended(articles / "rabbithub_publisher.py", base, "site", "push.main", "hello")
            delivered = await line(lines)

    assert (subscribed, published, delivered) == ("204", ["204", "202"], "push.main hello")
