"""The mirror of RabbitHub's exchanges under kills and outages, as the AMQP sink: what was accepted arrives (FM-02)."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import aio_pika
import httpx
import pytest

from app.chaos.child import Child
from scripts.servers.rabbitmq import RabbitServer
from tests.app.web.test_rabbithub import X, form
from tests.app.web.test_rabbithub_mirror import bound
from tests.hub.callback import Callbacks, serve_callbacks
from tests.waiting import poll, until

POSTS = 300
AGAIN_MAX = 100
"""What may have been under way at a kill is sent again: a window of confirms, and a batch of the fan-out."""


class Mirror:
    """A hub in a process, a mirrored exchange of it, and a queue that an AMQP program has bound there."""

    def __init__(self, server: RabbitServer, database_url: str, folder: Path) -> None:
        self.server = server
        self.exchange = f"mirror-{secrets.token_hex(4)}"
        self.queue = ""
        self.starts = 0
        settings = {
            "DATABASE_URL": database_url, "DATA_DIR": str(folder / "data"), "AMQP_URL": server.url,
            "RABBITHUB_MIRROR": "true", "LOG_FORMAT": "json",
        }  # fmt: skip
        self.child = Child("mirror", folder, settings)
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.child.port}", trust_env=False, timeout=10)

    async def open(self, callbacks: Callbacks) -> None:
        """Make the exchange, bind a queue of AMQP and a callback to the routing key `push`, and end the hub."""
        await self.child.start()
        await self._client.put(f"{X}/{self.exchange}", params={"amqp.exchange_type": "direct"})
        subscribed = await self._client.post(f"/rabbithub/subscribe/x/{self.exchange}", data=form(callbacks, "push"))
        assert subscribed.status_code == 204, subscribed.text
        self.queue = await bound(self.server, self.exchange, "direct", "push")
        await asyncio.to_thread(self.server.sync_declarations)  # a test may kill the broker
        await self.child.kill()

    async def close(self) -> None:
        await self._client.aclose()
        await self.child.end()

    async def start(self, failpoints: str = "") -> None:
        self.starts += 1
        await self.child.start(failpoints)

    async def post_all(self, harm: Callable[[], None] | None = None) -> None:
        """Post numbers, each until it is accepted; start the hub again when it has ended. Harm comes in the middle."""
        for number in range(POSTS):
            if harm is not None and number == POSTS // 2:
                await asyncio.to_thread(harm)
            while not await self._accepted(number):
                if not self.child.is_running:
                    await self.start()
                await poll()

    async def _accepted(self, number: int) -> bool:
        try:
            answer = await self._client.post(
                f"{X}/{self.exchange}", params={"hub.topic": "push"}, content=b"%d" % number
            )
        except httpx.HTTPError:
            return False
        return answer.status_code == 202

    async def mirrored(self) -> Counter[int]:
        """Take messages out of the queue until each number has come, and none is left."""
        found: Counter[int] = Counter()
        async with (
            asyncio.timeout(120),
            await aio_pika.connect(self.server.url) as connection,
            connection.channel() as channel,
        ):
            queue = await channel.get_queue(self.queue)
            async with queue.iterator(no_ack=True) as messages:
                while len(found) < POSTS:
                    found[int((await anext(messages)).body)] += 1
        return found


async def delivered(callbacks: Callbacks) -> Counter[int]:
    """What the callback got, once it has each number."""
    await until(lambda: len({body for _, _, body in callbacks.posted}) >= POSTS, 120)
    return Counter(int(body) for _, _, body in callbacks.posted)


def judged(found: Counter[int]) -> tuple[set[int], bool]:
    """The numbers that arrived, and whether there are no more repeats than there may be."""
    return set(found), found.total() - len(found) <= AGAIN_MAX


ALL = (set(range(POSTS)), True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "publish.before_commit", "publish.after_commit", "relay.after_claim", "relay.before_send", "relay.mid_send",
        "relay.after_send", "relay.before_purge", "relay.after_purge", "relay.after_fanout",
    ],
)  # fmt: skip
async def test_a_kill_at_a_step_of_the_way_loses_nothing_of_a_mirrored_exchange(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path, point: str
) -> None:
    """FM-02: as the AMQP sink, at least once; callbacks get each message as well."""
    mirror = Mirror(rabbitmq, database_url, tmp_path)
    async with serve_callbacks() as callbacks:
        try:
            await mirror.open(callbacks)
            await mirror.start(f"{point}:kill@5")
            await mirror.post_all()
            if mirror.starts == 1:
                await mirror.child.ended(60)
                await mirror.start()
            found = await mirror.mirrored(), await delivered(callbacks)
        finally:
            await mirror.close()

    assert (mirror.starts, [judged(each) for each in found]) == (2, [ALL, ALL])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["kill", "restart", "connections closed"])
async def test_an_outage_of_rabbitmq_delays_a_mirrored_exchange_and_loses_nothing_of_it(
    database_url: str, rabbitmq: RabbitServer, tmp_path: Path, way: str
) -> None:
    """FM-02, F24: what the broker had not confirmed is sent again."""

    def harm() -> None:
        if way == "kill":
            rabbitmq.kill()
            rabbitmq.start()
        elif way == "restart":
            rabbitmq.restart()
        else:
            rabbitmq.close_all_connections("fault")

    mirror = Mirror(rabbitmq, database_url, tmp_path)
    async with serve_callbacks() as callbacks:
        try:
            await mirror.open(callbacks)
            await mirror.start()
            await mirror.post_all(harm)
            found = await mirror.mirrored(), await delivered(callbacks)
        finally:
            await mirror.close()

    assert (list(mirror.child.crashes), [judged(each) for each in found]) == ([], [ALL, ALL])
