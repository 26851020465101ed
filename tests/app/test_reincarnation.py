"""A database with a new name: the events that it has keep their ids, everywhere (HA-23)."""

import asyncpg

from app.cli.commands.mending.reincarnate import _rename
from db.pool import PoolOptions, open_database
from tests.app.callback_server import LOOPBACK
from tests.app.conftest import ALL_ROLES, Receiver, RunHub

_NAMES = "SELECT hookwire.event_name(n, 'cccccccc') FROM unnest(ARRAY[$1::bigint, 999999999]) AS n"


async def test_what_waited_keeps_its_id_and_what_is_published_now_gets_the_new_name(
    running_hub: RunHub, receiver: Receiver, database_url: str
) -> None:
    async with running_hub(("api",), **LOOPBACK) as hub:
        await hub.subscribe("t", receiver.callback)
        before = (await hub.publish("t", b"before")).json()["id"]
    database = await open_database(PoolOptions(database_url, application_name="test"))
    changed = await _rename(database)
    await database.aclose()
    async with running_hub(ALL_ROLES, **LOOPBACK) as hub:
        [waited] = await receiver.wait_for(1)
        after = (await hub.publish("t", b"after")).json()["id"]
        known = (await hub.client.get(f"/events/{before}")).json()["id"]
        renamed = await hub.client.get(f"/events/{before.replace(str(changed['before']), str(changed['now']))}")
    sql = await asyncpg.connect(database_url)
    in_sql = [row[0] for row in await sql.fetch(_NAMES, int(before.rpartition("_")[2]))]
    await sql.close()
    assert (waited.headers["webhook-id"], known, renamed.status_code) == (before, before, 404)
    assert after.startswith(f"evt_{changed['now']}_")
    assert in_sql == [before, "evt_cccccccc_999999999"]
