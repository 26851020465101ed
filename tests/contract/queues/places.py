"""Places where a queue of the SDK may be: the databases, and the drivers through which a program reaches them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiomysql
import asyncpg
import pymysql

from hookwire.jobs import Message, Queue

__all__ = ["PLACES", "Place", "address", "done", "opened"]


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Place:
    """A database with the queue `q`. `sql` is a connection for single acts, each committed."""

    def __init__(self, url: str, connections: AsyncExitStack) -> None:
        self.url = url
        self.connections = connections
        self.queue = Queue("q")
        self.sql: Any = None

    async def prepare(self, **options: Any) -> None:
        self.sql = await self.connect()
        await done(self.queue.create(self.sql, **options))

    async def connect(self) -> Any:
        raise NotImplementedError

    async def begin(self, connection: Any) -> None:
        await self.run(connection, "BEGIN")

    async def run(self, connection: Any, text: str) -> None:
        raise NotImplementedError

    async def submit(self, *payloads: Any, **options: Any) -> list[int]:
        await self.begin(self.sql)
        ids = [await done(self.queue.submit(self.sql, payload, **options)) for payload in payloads]
        await self.run(self.sql, "COMMIT")
        return ids

    async def receive(self, count: int = 1, **options: Any) -> list[Message]:
        return await done(self.queue.receive(self.sql, count, **options))

    async def accept(self, messages: Sequence[Message]) -> list[int]:
        return await done(self.queue.accept(self.sql, messages))

    async def reject(self, messages: Sequence[Message], **options: Any) -> list[int]:
        return await done(self.queue.reject(self.sql, messages, **options))

    async def count(self) -> int:
        return await done(self.queue.count(self.sql))


class InPostgres(Place):
    async def connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(self.url)
        self.connections.push_async_callback(connection.close, timeout=60)
        return connection

    async def run(self, connection: asyncpg.Connection, text: str) -> None:
        await connection.execute(text)


def address(url: str) -> dict[str, Any]:
    at = urlsplit(url)
    return {"host": at.hostname, "port": at.port, "user": at.username, "password": at.password}


class ByAiomysql(Place):
    async def connect(self) -> aiomysql.Connection:
        named = {**address(self.url), "db": urlsplit(self.url).path[1:]}
        connection = await aiomysql.connect(**named, autocommit=True)
        self.connections.callback(connection.close)
        return connection

    async def run(self, connection: aiomysql.Connection, text: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(text)


class ByPymysql(Place):
    """A driver as programs have it by default: no autocommit."""

    async def connect(self) -> pymysql.Connection[Any]:
        connection = pymysql.connect(
            **address(self.url), database=urlsplit(self.url).path[1:], cursorclass=pymysql.cursors.DictCursor
        )
        self.connections.callback(connection.close)
        return connection

    async def run(self, connection: pymysql.Connection[Any], text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)


PLACES = {"postgresql": InPostgres, "aiomysql": ByAiomysql, "pymysql": ByPymysql}


@asynccontextmanager
async def opened(name: str, url: str) -> AsyncIterator[Place]:
    async with AsyncExitStack() as connections:
        yield PLACES[name](url, connections)
