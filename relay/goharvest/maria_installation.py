"""The tables that hookwire keeps beside an outbox in MariaDB or MySQL: create missing tables, check the outbox."""

from __future__ import annotations

import secrets

from db.errors import Refused
from db.mariadb.database import MariaDatabase, for_outbox, quoted_maria_table, table_parts
from relay.goharvest.outbox_table import TableRefused

__all__ = ["check_engine", "ensure_mapped_tables", "ensure_tables"]

_KEY_BYTES_MAX = 2_048  # as installation.create_parked has it


async def ensure_tables(database: MariaDatabase, table: str) -> str:
    """Create our missing tables and check the outbox; return our id. Raise TableRefused, DatabaseError."""
    if await database.fetchval("installation.made") < 3:
        for name in ("installation", "terms", "parked"):
            await database.execute(f"installation.create_{name}")
    incarnation = await _incarnation(database)
    await _look_at(database, table)
    return incarnation


async def ensure_mapped_tables(database: MariaDatabase) -> str:
    """Create the missing tables that a mapped outbox needs; return our id. Raise DatabaseError."""
    if await database.fetchval("mapped.made") < 4:
        for name in ("installation.create_installation", "installation.create_terms"):
            await database.execute(name)
        await database.execute("mapped.create_parked")
        await database.execute("mapped.create_offsets")
    return await _incarnation(database)


async def _incarnation(database: MariaDatabase) -> str:
    found = await database.fetchval("installation.incarnation")
    if found is None:
        await database.execute("installation.incarnate", incarnation=secrets.token_hex(4))
        found = await database.fetchval("installation.incarnation")
    return str(found)


async def _look_at(database: MariaDatabase, table: str) -> None:
    quoted, statements = for_outbox(table)
    try:
        await database.with_statements(statements).fetch("installation.columns")
    except Refused as error:
        raise TableRefused(f"the outbox {quoted} cannot be relayed: {error.message}") from error
    schema, name = table_parts(table)
    for row in await database.fetch("installation.texts", database=schema, table=name):
        if row["charset"] is None:
            raise TableRefused(f"the outbox {quoted} keeps {row['name']} as bytes; it has to be text")
        if row["name"] == "kafka_key" and row["bytes_max"] > _KEY_BYTES_MAX:
            raise TableRefused(
                f"the outbox {quoted} takes keys of up to {row['bytes_max']:,} bytes, and one of more than "
                f"{_KEY_BYTES_MAX:,} could not be parked; make kafka_key a varchar(512) or shorter"
            )
    await check_engine(database, table)


async def check_engine(database: MariaDatabase, table: str) -> None:
    """Check that a table has transactions. Raise TableRefused, DatabaseError."""
    schema, name = table_parts(table)
    engine = await database.fetchval("installation.engine", database=schema, table=name)
    if str(engine).lower() != "innodb":
        quoted = quoted_maria_table(table)
        raise TableRefused(f"the outbox {quoted} is kept by {engine}, without transactions; it has to be InnoDB")
