"""A standby that tells what its readers still see, and then is gone: its slot keeps dead rows for ever."""

from __future__ import annotations

import asyncio
import struct
from typing import Literal

import asyncpg
import psycopg
from psycopg import pq

from tests.waiting import until

__all__ = ["stand_by"]


async def stand_by(connection: asyncpg.Connection, url: str, slot: str, keeps: Literal["xmin", "catalog_xmin"]) -> None:
    """Use a physical slot once, with hot standby feedback; returns when the slot keeps it, abandoned.

    ``keeps``: of what its readers still see. The catalogs alone is what a standby with logical decoding asks for.
    """
    lsn, xid = await connection.fetchrow("SELECT pg_current_wal_flush_lsn()::text, txid_current()")
    standby = await asyncio.to_thread(psycopg.connect, url, replication="true")
    command = f"START_REPLICATION SLOT {slot} PHYSICAL {lsn}"
    answer = await asyncio.to_thread(standby.pgconn.exec_, command.encode())
    assert answer.status == pq.ExecStatus.COPY_BOTH, answer.error_message
    # Hot standby feedback, as the streaming replication protocol has it: clock, xmin, its epoch, the same of catalogs.
    seen, nothing = (xid & 0xFFFFFFFF, xid >> 32), (0, 0)
    rows, catalogs = (seen, nothing) if keeps == "xmin" else (nothing, seen)
    standby.pgconn.put_copy_data(struct.pack("!cqIIII", b"h", 0, *rows, *catalogs))
    standby.pgconn.flush()
    await until(lambda: _holds(connection, slot, keeps))
    await asyncio.to_thread(standby.close)
    await until(lambda: _is_abandoned(connection, slot))


async def _holds(connection: asyncpg.Connection, slot: str, keeps: str) -> bool:
    query = "SELECT xmin IS NOT NULL AS xmin, catalog_xmin IS NOT NULL AS catalog_xmin"
    row = await connection.fetchrow(f"{query} FROM pg_replication_slots WHERE slot_name = $1", slot)
    return row is not None and {name for name, is_held in row.items() if is_held} == {keeps}


async def _is_abandoned(connection: asyncpg.Connection, slot: str) -> bool:
    return not await connection.fetchval("SELECT active FROM pg_replication_slots WHERE slot_name = $1", slot)
