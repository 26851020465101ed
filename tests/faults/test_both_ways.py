"""One exchange both ways under kills: a git hook, amqp-publish, amqp-consume and two webhooks at once (GM-08, GM-10).

Each kill is at a fail point, which only work in flight passes. At each, the database tells what was in flight: open
deliveries, and records that AMQP was still owed. Only these may be repeated, as the table in the README says.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aio_pika
import asyncpg
import httpx
import pytest

from app.chaos.child import Child, ChildFailed
from scripts.servers.rabbitmq import RabbitServer
from tests.acceptance.git_example import Repository, git_environment, run
from tests.app.web.test_rabbithub import form
from tests.hub.callback import Callbacks, serve_callbacks
from tests.waiting import poll, until

POINTS = (
    "publish.after_commit", "relay.mid_send", "relay.after_send", "relay.before_purge", "relay.after_fanout",
    "deliver.after_claim", "deliver.after_response", "publish.before_commit",
)  # fmt: skip
PATHS = ("/one", "/two")
MESSAGES_MIN = 8
NONE: frozenset[str] = frozenset()
HOOK = """#!/bin/sh
commit=$(git rev-parse refs/heads/main)
until curl --silent --fail --max-time 5 --output /dev/null --header "Idempotency-Key: $commit" --data "$commit" {url}
do sleep 0.1; done
"""
OPEN = """
    SELECT convert_from(e.payload, 'UTF8') AS body, s.callback FROM hookwire.deliveries d
    JOIN hookwire.subscriptions s ON s.id = d.subscription_id JOIN hookwire.events e ON e.id = d.event_id
"""
OWED = """
    SELECT convert_from(e.payload, 'UTF8') AS body FROM hookwire.events e
    WHERE e.id IN (SELECT id FROM hookwire.outbox WHERE sink = 'amqp' UNION ALL
                   SELECT id FROM hookwire.held WHERE sink = 'amqp')
"""


class Chain:
    """A hub in a process, which is started again at each kill, and one exchange that is mirrored and read."""

    def __init__(self, server: RabbitServer, database_url: str, folder: Path) -> None:
        self.name = f"git-{secrets.token_hex(4)}"
        self.url = server.url.rstrip("/")
        self.sent: list[str] = []
        self.kills: list[tuple[str, int]] = []
        """Each kill's fail point, and the number of what was in flight."""
        self.repeatable: dict[str, set[str]] = {where: set() for where in (*PATHS, "amqp")}
        self._database_url = database_url
        self._left = list(POINTS)
        settings = {
            "DATABASE_URL": database_url, "DATA_DIR": str(folder / "data"), "AMQP_URL": server.url,
            "AMQP_EXCHANGE": f"{self.name}-hub", "LOG_FORMAT": "json",
            "AMQP_SOURCES": f"{self.name}.in?exchange={self.name}&rabbithub={self.name}",
        }  # fmt: skip
        self.child = Child("both-ways", folder, settings)
        self.hub = f"http://127.0.0.1:{self.child.port}"
        self.endpoint = f"{self.hub}/rabbithub/endpoint/x/{self.name}"

    async def open(self, callbacks: Callbacks) -> None:
        """Make the exchange, two subscriptions, and two queues of AMQP."""
        await self.child.start()
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            made = await client.put(self.endpoint, params={"amqp.exchange_type": "topic", "amqp.mirror": "true"})
            assert made.status_code == 201, made.text
            subscribe = f"{self.hub}/rabbithub/subscribe/x/{self.name}"
            for path in PATHS:
                answer = await client.post(subscribe, data=form(callbacks, "push.#", path))
                assert answer.status_code == 204, answer.text
        async with await aio_pika.connect(self.url + "/") as connection, connection.channel() as channel:
            exchange = await channel.get_exchange(self.name)
            for queue in ("site", "log"):
                await (await channel.declare_queue(f"{self.name}.{queue}", durable=True)).bind(exchange, "push.#")
        await self.child.kill()

    @property
    def is_sending(self) -> bool:
        return bool(self._left) or len(self.sent) < MESSAGES_MIN

    async def supervise(self) -> None:
        """Start the hub with the next fail point whenever the one before has killed it; then without any."""
        while self._left:
            point = self._left[0]
            with suppress(ChildFailed):  # it may pass the point before it is ready
                await self.child.start(f"{point}:kill@3")
            await until(lambda: not self.child.is_running, 120)
            await self._note_kill(point)
            del self._left[0]
        await self.child.start()

    async def _note_kill(self, point: str) -> None:
        connection = await asyncpg.connect(self._database_url)
        opened, owed = await connection.fetch(OPEN), await connection.fetch(OWED)
        await connection.close()
        for row in opened:
            for path in PATHS:
                if row["callback"].endswith(path):
                    self.repeatable[path].add(row["body"])
        self.repeatable["amqp"] |= {row["body"] for row in owed}
        self.kills.append((point, len(opened) + len(owed)))

    async def push(self, repository: Repository) -> None:
        """Push commits, each with a hook that POSTs until it is accepted."""
        hook = repository.bare / "hooks" / "post-receive"
        hook.write_text(HOOK.format(url=shlex.quote(f"{self.endpoint}?hub.topic=push.site")))
        hook.chmod(0o755)
        for number in itertools.count():
            if not self.is_sending:
                return
            self.sent.append(repository.commit(str(number)))
            await asyncio.to_thread(repository.push)

    async def publish(self) -> None:
        """Publish CloudEvents over AMQP, whether the hub runs or not."""
        program = shutil.which("amqp-publish")
        assert program is not None, "amqp-publish is missing: run scripts/install-servers amqp-tools"
        for number in itertools.count():
            if not self.is_sending:
                return
            body = f"amqp {number}"
            attributes = {"specversion": "1.0", "id": str(number), "source": "/amqp", "type": "pushed"}
            headers = [f"--header=cloudEvents_{name}: {value}" for name, value in attributes.items()]
            there = f"--exchange={self.name}", "--routing-key=push.amqp", "--persistent"
            await asyncio.to_thread(run, program, f"--url={self.url}", *there, *headers, f"--body={body}")
            self.sent.append(body)
            await poll()

    @asynccontextmanager
    async def consuming(self, program: Path) -> AsyncIterator[None]:
        consume = shutil.which("amqp-consume")
        assert consume is not None, "amqp-consume is missing: run scripts/install-servers amqp-tools"
        process = await asyncio.create_subprocess_exec(
            consume, f"--url={self.url}", f"--queue={self.name}.site", program, env=git_environment(),
            start_new_session=True,
        )  # fmt: skip
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def logged(self) -> list[tuple[str, str]]:
        """The id and the body of each message that AMQP has had."""
        found: list[tuple[str, str]] = []
        async with await aio_pika.connect(self.url + "/") as connection, connection.channel() as channel:
            queue = await channel.get_queue(f"{self.name}.log")
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                found.append((message.message_id or "", message.body.decode()))
        return found


def repeats(found: Sequence[tuple[str, str]]) -> Counter[str]:
    """How often each body came again."""
    return Counter(body for _, body in found) - Counter({body for _, body in found})


@pytest.mark.slow
async def test_kills_lose_nothing_of_an_exchange_both_ways_and_repeat_what_was_in_flight(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path
) -> None:
    """GM-08, GM-10, FM-02, FM-03."""
    chain, output = Chain(rabbitmq, database_url, tmp_path), tmp_path / "consumed"
    program = tmp_path / "append"
    program.write_text(f'#!/bin/sh\nline=$(cat)\necho "$line" >> {shlex.quote(str(output))}\n')
    program.chmod(0o755)
    async with serve_callbacks() as callbacks:

        def got(path: str) -> list[tuple[str, str]]:
            return [(sent["webhook-id"], body.decode()) for target, sent, body in callbacks.posted if path in target]

        try:
            await chain.open(callbacks)
            repository = Repository(tmp_path, chain.hub)
            async with chain.consuming(program):
                async with asyncio.TaskGroup() as tasks:
                    for work in (chain.supervise(), chain.push(repository), chain.publish()):
                        tasks.create_task(work)
                wanted = set(chain.sent)
                await until(lambda: all({body for _, body in got(path)} >= wanted for path in PATHS), 120)
                await until(lambda: set(output.read_text().splitlines()) >= wanted, 120)
            found = {**{path: got(path) for path in PATHS}, "amqp": await chain.logged()}
        finally:
            await chain.child.end()

    again = {where: repeats(messages) for where, messages in found.items()}
    counts = {where: bodies.total() for where, bodies in again.items()}
    print(f"{len(wanted)} messages; killed with so many in flight: {chain.kills}; repeats: {counts}")
    lost = {where: wanted ^ {body for _, body in messages} for where, messages in found.items()}
    unexplained = {where: set(bodies) - chain.repeatable[where] for where, bodies in again.items()}
    assert (lost, unexplained) == (dict.fromkeys(found, NONE), dict.fromkeys(found, NONE))
    ids = {where: Counter(body for _, body in set(messages)) - Counter(wanted) for where, messages in found.items()}
    assert {where: +more for where, more in ids.items()} == {where: Counter() for where in found}
    assert (len(chain.kills), min(count for _, count in chain.kills) > 0) == (len(POINTS), True)
