"""The ready pool in front of a fake pool of asyncpg's shape; tests/db/test_pool.py tries both with a server."""

from __future__ import annotations

import asyncpg
import pytest

from db.pooling.ready_pool import ReadyPool


class Connection:
    def __init__(self) -> None:
        self.is_gone = self.is_known_to_be_gone = self.was_terminated = self.has_begun = False

    def is_closed(self) -> bool:
        if self.is_known_to_be_gone:
            raise asyncpg.InterfaceError("released back to the pool")
        return self.is_gone

    def is_in_transaction(self) -> bool:
        return self.has_begun

    def terminate(self) -> None:
        self.was_terminated = True


class Pool:
    def __init__(self) -> None:
        self.free = [Connection(), Connection()]
        self.is_closed = False

    async def acquire(self) -> Connection:
        return self.free.pop()

    async def release(self, connection: Connection) -> None:
        self.free.append(connection)

    async def close(self) -> None:
        assert len(self.free) == 2
        self.is_closed = True


async def test_the_connection_that_came_back_last_is_taken_first() -> None:
    pool = ReadyPool(Pool())
    first, second = await pool.acquire(), await pool.acquire()
    for one in (first, second):
        await pool.release(one, is_in_order=True)

    assert [pool.take(), pool.take(), pool.take()] == [second, first, None]


@pytest.mark.parametrize(("is_in_order", "has_begun"), [(False, False), (True, True)])
async def test_a_connection_that_is_not_in_order_goes_back_to_the_pool_of_asyncpg(
    is_in_order: bool, has_begun: bool
) -> None:
    inner = Pool()
    pool = ReadyPool(inner)
    connection = await pool.acquire()
    connection.has_begun = has_begun
    await pool.release(connection, is_in_order=is_in_order)

    assert (pool.take(), len(inner.free)) == (None, 2)


@pytest.mark.parametrize("known", [True, False])
async def test_a_connection_that_was_closed_meanwhile_is_not_taken(known: bool) -> None:
    pool = ReadyPool(Pool())
    closed, open_ = await pool.acquire(), await pool.acquire()
    for one in (open_, closed):
        await pool.release(one, is_in_order=True)
    closed.is_gone, closed.is_known_to_be_gone = True, known

    assert pool.take() is open_
    assert closed.was_terminated is not known  # asyncpg's pool has it already, or gets it so


async def test_connections_that_are_not_used_go_back_to_the_pool_of_asyncpg(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("db.pooling.ready_pool.time.monotonic", lambda: now)
    inner = Pool()
    pool = ReadyPool(inner)
    unused, used = await pool.acquire(), await pool.acquire()
    await pool.release(unused, is_in_order=True)
    now += 31
    await pool.release(used, is_in_order=True)

    assert (inner.free, pool.take()) == ([unused], used)


async def test_one_of_a_thousand_returns_lets_the_pool_of_asyncpg_look_at_the_connection() -> None:
    inner = Pool()
    pool = ReadyPool(inner)
    connection = await pool.acquire()
    kept = 0
    for _ in range(1_000):
        await pool.release(connection, is_in_order=True)
        kept += pool.take() is not None

    assert (kept, len(inner.free)) == (999, 2)


async def test_closing_gives_back_what_is_ready_and_what_comes_back_later() -> None:
    inner = Pool()
    pool = ReadyPool(inner)
    early, late = await pool.acquire(), await pool.acquire()
    await pool.release(early, is_in_order=True)
    with pytest.raises(AssertionError):  # the inner pool would wait for the other one
        await pool.close()
    await pool.release(late, is_in_order=True)
    await pool.close()

    assert inner.is_closed
