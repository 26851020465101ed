"""DatabaseSeen on each driver: an event's effect is committed once, whatever repeats, fails or runs at once (FD-14)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import asyncpg
import psycopg
import pytest

from hookwire.receive import DatabaseSeen, Event
from hookwire.receive.asgi import Receiver
from hookwire.testing import deliver_async
from tests.sdk.drivers import django_connection

SECRET = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
EVENT = Event("evt_1", "orders.created", "ada", 7, body=b"{}")
WAIT_SECONDS = 60


async def prepared(url: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(url)
    for table in (*DatabaseSeen.TABLES, "CREATE TABLE effects (id text)"):
        await connection.execute(table)
    return connection


async def test_an_effect_is_applied_once_though_the_process_forgets_and_deliveries_meet(database_url: str) -> None:
    """Ten receivers without a common memory, as ten processes; one of them dies after its effect, before its commit."""
    watching = await prepared(database_url)
    seen = DatabaseSeen("billing")
    dies = [True]

    def receiver() -> Receiver:
        receive = Receiver(secrets=[SECRET])

        @receive.on("orders.*")
        async def order(event: Event) -> None:
            connection = await asyncpg.connect(database_url)
            try:
                async with connection.transaction():
                    if await seen.first(connection, event):
                        await connection.execute("INSERT INTO effects VALUES ($1)", event.id)
                        if dies and dies.pop():
                            raise ConnectionError
            finally:
                await connection.close()

        return receive

    async with asyncio.timeout(WAIT_SECONDS):
        answers = await asyncio.gather(*(deliver_async(receiver(), EVENT, SECRET) for _ in range(10)))
        effects = await watching.fetchval("SELECT count(*) FROM effects")
    await watching.close()

    assert (sorted(answer.status for answer in answers), effects) == ([204] * 9 + [500], 1)


async def test_a_replay_and_what_overtook_it_are_told(database_url: str) -> None:
    watching = await prepared(database_url)
    seen = DatabaseSeen("billing")
    found: list[object] = []
    events = [EVENT, EVENT, replace(EVENT, is_replay=True), replace(EVENT, id="evt_2")]
    order = [EVENT, replace(EVENT, sequence=9), replace(EVENT, sequence=8), replace(EVENT, key="bob", sequence=1)]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        found += [[await seen.first(connection, event) for event in events]]
    with psycopg.connect(database_url) as connection:
        found += [[seen.newer(connection, event) for event in order]]
    async with watching.transaction():
        found += [await DatabaseSeen("other").first(watching, EVENT), await seen.forget(watching, 0)]
    await watching.close()

    assert found == [[True, False, True, True], [True, True, False, True], True, 2]


def test_it_works_on_djangos_connection(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for table in DatabaseSeen.TABLES:
            connection.execute(table)
    from django.db import transaction

    connection = django_connection(database_url)
    try:
        with transaction.atomic():
            assert [DatabaseSeen("d").first(connection, EVENT) for _ in "12"] == [True, False]
    finally:
        connection.close()


async def test_an_event_without_order_is_neither_newer_nor_older(database_url: str) -> None:
    connection = await prepared(database_url)
    with pytest.raises(ValueError, match="has no key or no sequence"):
        DatabaseSeen("d").newer(connection, replace(EVENT, key=None))
    await connection.close()
