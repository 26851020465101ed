"""What the standby fence holds back: a relay gets no record of the outbox or behind a hold, and no batch's number."""

from dataclasses import replace

import pytest

from db.errors import HeldBack
from db.pool import Database
from db.replication.standby_fence import Required, StandbyFence
from relay.holds.hold import DueTopic, Hold, Holds
from relay.outbox import Outbox
from relay.sink import SHARDS, Refusal
from tests.relay.harness import INCARNATION, relay_harness


async def test_a_relay_gets_no_record_that_is_held_back(database_url: str) -> None:
    """HA-11."""
    async with relay_harness(database_url) as harness:
        await harness.publish("a", "b")
        term = await harness.begin_term()
        outbox = Outbox(harness.database, harness.sink, INCARNATION, payload=True)
        outbox.begin(range(SHARDS))
        refused = (await outbox.claim(term, (), 1, 1 << 20))[0]
        placed = Holds(harness.database, harness.sink, INCARNATION)
        await placed.place(term, [Refusal(refused, "record", "too_large", "too large")])
        await harness.probe_now()
        fence = StandbyFence(Required(count=1), wait_seconds=0)
        database = Database(harness.database._pool, replace(harness.database.options, fence=fence))
        fenced, holds = (
            Outbox(database, harness.sink, INCARNATION, payload=True),
            Holds(database, harness.sink, INCARNATION),
        )
        fenced.begin(range(SHARDS))
        heads = Outbox(database, harness.sink, INCARNATION, payload=False)
        heads.begin(range(SHARDS))
        for call in (
            lambda: fenced.claim(term, (), 10, 1 << 20),
            lambda: heads.claim(term, (), 10, 1 << 20),
            lambda: holds.claim(term, Hold("default", "orders", "a"), 10, 1 << 20),
            lambda: holds.heads(term, DueTopic("default", "orders", False), 10, 1 << 20),
            lambda: fenced.write_manifest(term, [refused]),
        ):
            with pytest.raises(HeldBack):
                await call()
