"""A hub on a real database with a scripted subscriber; the verification service runs where a test wants it."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import asyncpg

from db.names import NamesInUse
from db.pool import PoolOptions, open_database
from db.secret_box import SecretBox
from egress.client import Client, Outbound
from egress.guard import GuardPolicy
from egress.resolver import ThreadResolver
from hub.acceptance import Hub, accept
from hub.form import Mode, Subscribing
from hub.options import HubOptions
from hub.verification import Verification
from runtime.wake import Wake
from tests.hub.callback import Callbacks, serve_callbacks
from tests.waiting import until
from webhooks.subscriber import secret_context

PUBLIC = "http://hub.example"
TOPIC = f"{PUBLIC}/topics/a"
POLICY = GuardPolicy(allow_cidrs=(ip_network("127.0.0.0/8"),), allow_high_ports=True)
OPTIONS = HubOptions(PUBLIC, POLICY, verification_retries=(), sweep_seconds=0.05)
WAIT_SECONDS_MAX = 60.0
"""How long a test waits for a condition before it fails."""


@dataclass
class Harness:
    """What a test needs of the hub. `sql` is a connection of the test's own, for reading and for preparing data."""

    hub: Hub
    callbacks: Callbacks
    sql: asyncpg.Connection
    wake: Wake

    async def ask(self, mode: Mode = Mode.SUBSCRIBE, callback: str = "", topic_url: str = TOPIC, **more: Any) -> int:
        """Has a request accepted; gives its id."""
        return await accept(self.hub, Subscribing(mode, topic_url, callback or self.callbacks.url(), **more))

    async def decided(self, *intents: int) -> list[str]:
        """The states of requests once all are decided."""

        async def states() -> list[str] | None:
            rows = await self.sql.fetch(
                "SELECT state, decided_at FROM hookwire.intents WHERE id = ANY ($1::bigint[]) ORDER BY id",
                list(intents),
            )
            assert len(rows) == len(intents)
            return [row["state"] for row in rows] if all(row["decided_at"] for row in rows) else None

        found: list[str] = await until(states)
        return found

    async def subscribed(self, **more: Any) -> int:
        """Subscribes and waits until that is verified; gives the request's id."""
        intent = await self.ask(**more)
        assert await self.decided(intent) == ["verified"]
        return intent

    async def subscriptions(self) -> list[tuple[str, str, int, str | None]]:
        """Callback path, state, version and the secret, as a delivery worker would open it."""
        rows = await self.sql.fetch(
            "SELECT s.*, k.number, k.key_id, k.sealed FROM hookwire.subscriptions s"
            " LEFT JOIN hookwire.subscription_secrets k ON k.subscription_id = s.id ORDER BY s.id"
        )
        return [
            (r["callback"].removeprefix(self.callbacks.url("")), r["state"], r["version"], self._secret(r))
            for r in rows
        ]

    def _secret(self, row: asyncpg.Record) -> str | None:
        if row["sealed"] is None:
            return None
        return self.hub.secret_box.open(row["key_id"], row["sealed"], secret_context(row["id"], row["number"])).decode()

    async def owe(self, deliveries: int) -> None:
        """Makes open deliveries for the only subscription."""
        await self.sql.execute(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
            " SELECT n, s.id, now(), now(), 'default' FROM hookwire.subscriptions s, generate_series(1, $1) n",
            deliveries,
        )

    def service(self, outbound: Outbound, **options: Any) -> Verification:
        changed = dataclasses.replace(self.hub.options, **options)
        return Verification(self.hub.database, outbound, self.hub.secret_box, changed, self.wake)

    @asynccontextmanager
    async def verifying(self, outbound: Outbound | None = None, **options: Any) -> AsyncIterator[Verification]:
        """Runs the service; it is stopped softly afterwards."""
        client = outbound or Client(POLICY, ThreadResolver())
        service = self.service(client, **options)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(service.run())
            try:
                yield service
            except BaseException:
                running.cancel()
                raise
            service.stop()
        await client.aclose()


@asynccontextmanager
async def hub_harness(database_url: str, **options: Any) -> AsyncIterator[Harness]:
    database = await open_database(PoolOptions(database_url, connections_max=8))
    sql = await asyncpg.connect(database_url)
    wake = Wake()
    hub = Hub(
        database,
        dataclasses.replace(OPTIONS, **options),
        SecretBox({"k": os.urandom(32)}, "k"),
        NamesInUse(database, "topic"),
        wake.notify,
    )
    try:
        async with serve_callbacks() as callbacks:
            yield Harness(hub, callbacks, sql, wake)
    finally:
        await sql.close()
        await database.aclose()
