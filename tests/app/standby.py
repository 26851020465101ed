"""A standby that tells what its readers still see, and then is gone: its slot keeps dead rows for ever."""

from __future__ import annotations

import asyncio
import struct

import asyncpg
import psycopg
from psycopg import pq

from tests.relay.stage import until

__all__ = ["stand_by"]


async def stand_by(connection: asyncpg.Connection, url: str, slot: str) -> None:
    """Use a physical slot once, with hot standby feedback; returns when the slot keeps it, abandoned."""
    lsn, xid = await connection.fetchrow("SELECT pg_current_wal_flush_lsn()::text, txid_current()")
    standby = await asyncio.to_thread(psycopg.connect, url, replication="true")
    command = f"START_REPLICATION SLOT {slot} PHYSICAL {lsn}"
    answer = await asyncio.to_thread(standby.pgconn.exec_, command.encode())
    assert answer.status == pq.ExecStatus.COPY_BOTH, answer.error_message
    # Hot standby feedback, as the streaming replication protocol has it: clock, xmin, its epoch, the same of catalogs.
    standby.pgconn.put_copy_data(struct.pack("!cqIIII", b"h", 0, xid & 0xFFFFFFFF, xid >> 32, 0, 0))
    standby.pgconn.flush()
    await until(lambda: _holds(connection, slot))
    await asyncio.to_thread(standby.close)
    await until(lambda: _is_abandoned(connection, slot))


async def _holds(connection: asyncpg.Connection, slot: str) -> bool:
    query = "SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = $1"
    return bool(await connection.fetchval(query, slot))


async def _is_abandoned(connection: asyncpg.Connection, slot: str) -> bool:
    return not await connection.fetchval("SELECT active FROM pg_replication_slots WHERE slot_name = $1", slot)
