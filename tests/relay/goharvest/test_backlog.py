"""A million rows that came while no relay was there, in PostgreSQL and in MariaDB (GU-18)."""

from __future__ import annotations

from typing import Any

import pytest

from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.observer import Observer
from relay.sink import Batch, Features, Receipt
from tests.relay.goharvest import test_mapped as on_postgres
from tests.relay.goharvest import test_maria_mapped as on_maria
from tests.relay.memory import MemoryBroker, MemorySink

maria = on_maria.place
postgres = on_postgres.place
ROWS = 1_000_000
_POSTGRES = (
    "CREATE INDEX ON outbox (place); INSERT INTO outbox (aggregatetype, aggregateid, type, payload)"
    " SELECT 'order', n % 1000, 'Made', n::text::jsonb FROM generate_series(1, {rows}) n"
)
_MARIA = (
    "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)"
    " SELECT UUID(), 'order', MOD(seq, 1000), 'Made', CAST(seq AS CHAR) FROM seq_1_to_{rows}"
)


class CountingSink(MemorySink):
    """Takes everything, keeps nothing, and counts the records that are not the next of their key."""

    def __init__(self, goal: int) -> None:
        super().__init__(MemoryBroker(), Features(window="batch", batch_records_max=2_000, overlap=1))
        self.goal = goal
        self.following: dict[str | None, int] = {}
        self.disordered = self.taken = 0
        self.harvester: CompatHarvester | None = None

    async def send(self, batch: Batch) -> Receipt:
        for record in batch.records:
            number = int(record.payload)
            self.disordered += number != self.following.get(record.key, int(record.key or 0) or 1000)
            self.following[record.key] = number + 1000
        self.taken += len(batch.records)
        if self.taken >= self.goal and self.harvester is not None:
            self.harvester.stop()
        return Receipt(batch.records)


@pytest.fixture(params=["postgres", "maria"])
def place(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.mark.slow
async def test_a_million_rows_that_waited_arrive_once_and_in_order(place: on_postgres.Place | on_maria.Place) -> None:
    if isinstance(place, on_maria.Place):
        await place.run(_MARIA.format(rows=ROWS))
    else:
        await place.sql.execute(_POSTGRES.format(rows=ROWS))
    table = await place.table()
    sink = CountingSink(ROWS)
    observer = Observer(table.name, lambda _: None, 60.0)
    sink.harvester = CompatHarvester(table, sink, place.election, observer, CompatOptions())
    await sink.harvester.run()
    if isinstance(place, on_maria.Place):
        ((left,),) = await place.run("SELECT COUNT(*) FROM outbox")
    else:
        left = await place.waiting()
    assert (sink.taken, sink.disordered, left) == (ROWS, 0, 0)
