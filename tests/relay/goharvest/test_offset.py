"""Append-only outbox tables: an offset that lags, in PostgreSQL and in MariaDB (GU-18)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog.testing

from relay.election.port import LeadershipLost
from relay.embeddable import Relay
from relay.goharvest.compat import CompatHarvester, CompatOptions
from relay.goharvest.mapped_offsets import MappedOffsets
from relay.goharvest.mapping import MappingRefused, mapping_of
from relay.goharvest.maria_offsets import MariaOffsets
from relay.goharvest.offset_table import Horizon, OffsetTable
from relay.goharvest.outbox_table import TableRefused
from relay.observer import Observer
from relay.sink import Features, Refusal, Term
from tests.relay.goharvest import test_mapped as on_postgres
from tests.relay.goharvest import test_maria_mapped as on_maria
from tests.relay.memory import MemorySink
from tests.waiting import until

maria = on_maria.place
postgres = on_postgres.place
OFFSET: dict[str, Any] = {"preset": "debezium", "table": "outbox", "offset": "place", "lag_seconds": 1}
Place = on_postgres.Place | on_maria.Place


@pytest.fixture(params=["postgres", "maria"])
def place(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


async def table_of(place: Place, lag_seconds: float = 0.0, **mapping: Any) -> OffsetTable:
    if isinstance(place, on_maria.Place):
        read = mapping_of(OFFSET | mapping, "mysql")
        table = OffsetTable(read.name, MariaOffsets(place.database, read), lag_seconds)
    else:
        read = mapping_of(OFFSET | mapping)
        table = OffsetTable(read.name, MappedOffsets(place.database, read), lag_seconds)
    await table.look_at()
    return table


async def relay_of(place: Place, table: OffsetTable) -> Relay:
    sink = MemorySink(place.broker, Features(window="batch", batch_records_max=100, overlap=1))
    observer = Observer(table.name, lambda _: None, 60.0)
    options = CompatOptions(100, 0.01, 0.02, 0.01, 0.02)
    return Relay([(CompatHarvester(table, sink, place.election, observer, options), observer)])


@asynccontextmanager
async def relaying(place: Place, lag_seconds: float = 0.0) -> AsyncIterator[Callable[[int], Any]]:
    """Relay; what is yielded waits until so many records were sent."""

    async def sent(number: int) -> None:
        await until(lambda: len(place.sent()) >= number, 60)

    async with await relay_of(place, await table_of(place, lag_seconds)):
        yield sent


async def test_rows_stay_and_each_is_sent_once(place: Place) -> None:
    """The second relay goes on where the first has ended."""
    await place.write(("a", "1"), ("b", "2"))
    async with relaying(place) as sent:
        await sent(2)
    await place.write(("a", "3"))
    async with relaying(place) as sent:
        await sent(3)

    assert place.sent() == [("a", b"1"), ("b", b"2"), ("a", b"3")]


async def test_the_relay_waits_for_an_open_transaction_that_may_commit_behind_the_offset(
    postgres: on_postgres.Place,
) -> None:
    """The lag is none: PostgreSQL tells that the transaction is open."""
    term, table = await postgres.begin_term(), await table_of(postgres)
    async with on_postgres.other(postgres) as slow:
        async with slow.transaction():
            await postgres.write(("a", "1"), sql=slow)
            await postgres.write(("a", "2"))
            early = [await table.mark(term, 10) for _ in range(3)]
        late = await table.mark(term, 10)

    assert (early, [record.payload for record in late]) == ([[], [], []], [b"1", b"2"])


async def test_in_mariadb_a_row_that_commits_after_the_lag_is_lost(maria: on_maria.Place) -> None:
    """That is what the start warns of; within the lag it is sent."""
    term, patient, hasty = await maria.begin_term(), await table_of(maria, 3600), await table_of(maria)
    async with on_maria.other(maria) as slow:
        await maria.write(("a", "1"), sql=slow)
        await maria.write(("a", "2"))
        early = await patient.mark(term, 10)
        found = await hasty.mark(term, 10)
        await hasty.purge([record.id for record in found])
    late = await hasty.mark(term, 10)

    assert (early, [record.payload for record in found], late) == ([], [b"2"], [])


async def test_a_refused_row_holds_those_behind_it_and_no_row_is_skipped(place: Place) -> None:
    place.broker.record_bytes_max = 5
    await place.write(("a", "1"), ("b", '"too long"'), ("c", "3"))
    table, term = await table_of(place), await place.begin_term()
    first = await table.mark(term, 10)
    sink = MemorySink(place.broker, Features(window="batch", batch_records_max=100, overlap=1))
    harvester = CompatHarvester(table, sink, place.election, Observer(table.name), CompatOptions())
    await sink.open(term)
    await harvester._carry(term, first)
    held = await table.mark(term, 10)
    table._held_until = 0.0  # its pause is over
    alone = await table.mark(term, 10)
    place.broker.record_bytes_max = None
    await harvester._carry(term, alone)
    after = await table.mark(term, 10)

    found = [[record.payload for record in records] for records in (first, held, alone, after)]
    assert found == [[b"1", b'"too long"', b"3"], [], [b'"too long"'], [b"3"]]


async def test_a_later_round_of_the_batch_does_not_end_the_pause_of_a_refused_row() -> None:
    """Rows before and behind it are confirmed after it was refused."""
    rows = [dict.fromkeys(("key", "payload", "headers", "content_type")) | {"row_id": str(n), "topic": "t", "place": n}
            for n in (1, 2, 3, 4)]  # fmt: skip

    class Store:
        async def horizon(self) -> Horizon:
            return Horizon(4, 0, 0)

        async def behind(self, term: Term, until: int, limit: int) -> list[dict[str, Any]]:
            return rows

        async def advance(self, term: Term, place: int) -> bool:
            return True

    table, term = OffsetTable("outbox", Store(), 0.0), Term("outbox", 0, 1, 1, 0)  # type: ignore[arg-type]
    one, two, three, four = await table.mark(term, 10)
    held = []
    await table.park(term, [Refusal(three, "record", "too_large", "")])
    for record in (one, four, two, three):
        await table.purge([record.id])
        held.append(table._held_seconds)
    assert held == [2.0, 2.0, 2.0, 0.0]


async def test_a_row_without_an_id_is_refused_and_holds_those_behind_it(postgres: on_postgres.Place) -> None:
    """The offset would pass it, and its idempotency key was that of every such row."""
    await postgres.write(("a", "1"), ("a", "2"))
    table = await table_of(postgres, id="nullif(place, 1)", headers="NULL::jsonb")
    claimed = await table.mark(await postgres.begin_term(), 10)
    faults = [table.fault(record) for record in claimed]
    assert ([fault and fault.reason for fault in faults], claimed[0].event_id) == (["id_missing", None], "")


async def test_an_id_of_bytes_is_shown_as_hexadecimal_digits(maria: on_maria.Place) -> None:
    """It became NULL, which was the idempotency key of every row."""
    await maria.run("ALTER TABLE outbox DROP PRIMARY KEY, DROP id, ADD id binary(16) NOT NULL PRIMARY KEY")
    await maria.run("INSERT INTO outbox (id, aggregatetype, payload) VALUES (UNHEX('FF'), 'order', '1')")
    table = await table_of(maria, headers="JSON_OBJECT('n', 1)")
    claimed = await table.mark(await maria.begin_term(), 10)
    assert [record.event_id for record in claimed] == ["FF" + 15 * "00"]


async def test_a_relay_that_has_lost_the_leadership_moves_no_offset(place: Place) -> None:
    await place.write(("a", "1"))
    table, term = await table_of(place), await place.begin_term()
    claimed = await table.mark(term, 10)
    successor = await place.begin_term()
    with pytest.raises(LeadershipLost):
        await table.purge([record.id for record in claimed])
    assert (await table.mark(term, 10), len(await table.mark(successor, 10))) == ([], 1)


async def test_a_row_is_sent_when_the_lag_is_over_and_nothing_older_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock and a table of the test's own: no time passes."""
    now, seen, asked = [100.0], [Horizon(5, 40, 40)], []

    class Store:
        async def horizon(self) -> Horizon:
            return seen[0]

        async def behind(self, term: Term, until: int, limit: int) -> list[dict[str, Any]]:
            asked.append((now[0], until))
            return []

    monkeypatch.setattr("relay.goharvest.offset_table.time.monotonic", lambda: now[0])
    table = OffsetTable("outbox", Store(), 10.0)  # type: ignore[arg-type]
    for at, horizon in [
        (100.0, Horizon(5, 40, 38)), (105.0, Horizon(7, 41, 38)), (109.9, Horizon(7, 41, 38)),
        (111.0, Horizon(7, 42, 39)), (112.0, Horizon(7, 42, 40)), (116.0, Horizon(9, 42, 42)),
    ]:  # fmt: skip
        now[0], seen[0] = at, horizon
        await table.mark(Term("outbox", 0, 1, 1, 0), 10)

    assert asked == [(112.0, 5), (116.0, 7)]


async def test_the_start_warns_of_what_an_offset_may_lose(place: Place) -> None:
    with structlog.testing.capture_logs() as logs:
        await table_of(place, 60.0)
    told = [(line["log_level"], line["lag_seconds"]) for line in logs if line["event"] == "outbox_offset_may_lose_rows"]
    assert told == [("warning", 60.0)]


async def test_an_offset_is_an_integer(place: Place) -> None:
    with pytest.raises(TableRefused, match="offset is of the type"):
        await table_of(place, offset="aggregateid")


@pytest.mark.parametrize(
    "change",
    [{"lag_seconds": None}, {"lag_seconds": 0}, {"lag_seconds": "60"}, {"lag_seconds": True}, {"order": "place"},
     {"mark": "done = true", "waits": "NOT done"}, {"offset": None}],
    ids=str,
)  # fmt: skip
def test_an_offset_has_a_lag_and_nothing_that_contradicts_it(change: dict[str, Any]) -> None:
    given = {name: value for name, value in (OFFSET | change).items() if value is not None}
    with pytest.raises(MappingRefused):
        mapping_of(given)
