"""Each way to alter rows of the lake is named with its event or its place, and no innocent event is.

All of them are done to one lake, each to a key of its own, and one audit reads them. The audit of the lake before is
clean.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from pipeline.audit.seal import SealKeys, sealed
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.delta.snapshot import Change
from pipeline.frame import frame_of
from pipeline.lake import bronze
from pipeline.schema import BRONZE
from pipeline.storage import LakeStorage
from tests.app.maintenance.test_ledger import close_hours, purge
from tests.databases import Databases
from tests.pipeline.test_audit_command import audit
from tests.pipeline.test_seals import held
from tests.pipeline.test_tampering import PUBLISHED, found_in
from tests.relay.harness import relay_harness

Row = dict[str, Any]
Act = Callable[[list[Row]], list[Row]]
Named = set[tuple[str, str]]

SECRET: Final = bytes(range(32))
STRANGERS: Final = SealKeys((b"of another installation",))
PER_KEY: Final = 4
DAY: Final = timedelta(days=1)
NEVER: Final = datetime(2099, 1, 1, tzinfo=UTC)
ALTERED: Final = ("altered 1",)


@dataclass(frozen=True)
class Kind:
    """``act`` gets the four rows of a key. ``wanted``: faults, each with the place of its event, or an id."""

    act: Act
    wanted: Sequence[str]


def put(**changes: Any) -> Act:
    """Alter columns of the second row."""
    return lambda rows: [rows[0], rows[1] | changes, *rows[2:]]


def with_copy(**changes: Any) -> Act:
    """Put an altered copy of the second row beside it."""
    return lambda rows: [*rows, rows[1] | changes]


def later(column: str, by: Any) -> Act:
    return lambda rows: [rows[0], rows[1] | {column: rows[1][column] + by}, *rows[2:]]


def exchanged(*columns: str) -> Act:
    """Exchange columns of the second and the third row."""

    def act(rows: list[Row]) -> list[Row]:
        second, third = ({column: row[column] for column in columns} for row in rows[1:3])
        return [rows[0], rows[1] | third, rows[2] | second, rows[3]]

    return act


def of_another_event(rows: list[Row]) -> list[Row]:
    return [rows[0], rows[1] | {"event_id": rows[3]["event_id"]}, *rows[2:]]


def shifted(rows: list[Row]) -> list[Row]:
    """All coordinates alike: the order stays."""
    return [row | {"offset": row["offset"] + 5_000_000} for row in rows]


def backwards(rows: list[Row]) -> list[Row]:
    """Both clocks that no ledger knows, by the same time."""
    times = {name: rows[1][name] - 2 * DAY for name in ("timestamp", "archived_at")}
    return [rows[0], rows[1] | times, *rows[2:]]


def headers(*pairs: tuple[str, bytes | None]) -> list[Row]:
    return [{"key": key, "value": value} for key, value in pairs]


def moved(rows: list[Row], **more: Any) -> Row:
    """The second row, on the next day with all its times."""
    times = {name: rows[1][name] + DAY for name in ("accepted_at", "archived_at", "timestamp", "dt")}
    return rows[1] | times | more


KINDS: Final[dict[str, Kind]] = {
    "row deleted": Kind(lambda rows: [rows[0], *rows[2:]], ["lost 1"]),
    "row doubled": Kind(with_copy(), ["duplicated 1"]),
    "row doubled at another offset": Kind(with_copy(offset=9_000_000), ["duplicated 1", "altered 1"]),
    "moved to another day": Kind(
        lambda rows: [rows[0], moved(rows), *rows[2:]], ["misplaced 1", "altered 1"]
    ),
    "copied to another day": Kind(
        lambda rows: [*rows, moved(rows, offset=9_000_001)], ["misplaced 1", "altered 1", "duplicated 1"]
    ),
    "moved to another topic": Kind(put(topic="carts"), ["lost 1", "phantom 1", "altered 1"]),
    "dated 2099": Kind(put(accepted_at=NEVER, dt=date(2099, 1, 1)), ["misplaced 1", "altered 1"]),
    "in another day's folder": Kind(put(dt=date(2026, 1, 17)), ["misplaced 1", "altered 1"]),
    "id never issued": Kind(
        put(event_id="evt_{name}_77000000", event_number=77_000_000),
        ["lost 1", "phantom evt_{name}_77000000", "altered evt_{name}_77000000"],
    ),
    "of another incarnation": Kind(
        put(event_id="evt_zzzzzzzz_9"), ["lost 1", "phantom evt_zzzzzzzz_9", "altered evt_zzzzzzzz_9"]
    ),
    "event_id altered, event_number left": Kind(
        put(event_id="evt_{name}_88000000"), ["lost 1", "phantom evt_{name}_88000000", "altered evt_{name}_88000000"]
    ),
    "event_id of another event": Kind(of_another_event, ["lost 1", "phantom 3", "altered 3"]),
    "payload altered": Kind(put(value=b"forged"), ALTERED),
    "payload null": Kind(put(value=None), ALTERED),
    "payload emptied": Kind(put(value=b""), ALTERED),
    "key altered": Kind(put(key=b"of nobody"), ALTERED),
    "key null": Kind(put(key=None), ALTERED),
    "tail of a key cut": Kind(lambda rows: put(key=rows[1]["key"][:-1])(rows), ALTERED),
    "content type altered": Kind(put(content_type="text/plain"), ALTERED),
    "content type emptied": Kind(put(content_type=""), ALTERED),
    "sequence altered": Kind(later("sequence", 1), ALTERED),
    "header altered": Kind(put(headers=headers(("x-trace", b"2"))), ALTERED),
    "header added": Kind(put(headers=headers(("x-trace", b"1"), ("x-forged", b"1"))), ALTERED),
    "header removed": Kind(put(headers=[]), ALTERED),
    "header of the envelope added": Kind(put(headers=headers(("x-trace", b"1"), ("hookwire-x", b"1"))), ALTERED),
    "accepted_at by a microsecond": Kind(later("accepted_at", timedelta(microseconds=1)), ALTERED),
    "accepted_at by an hour": Kind(later("accepted_at", timedelta(hours=1)), ["misplaced 1", "altered 1"]),
    "accepted_at by twelve hours": Kind(later("accepted_at", timedelta(hours=12)), ALTERED),
    "archived_at 400 days ahead": Kind(later("archived_at", 400 * DAY), ALTERED),
    "archived_at an hour ahead": Kind(later("archived_at", timedelta(hours=1)), ALTERED),
    "archived_at an hour back": Kind(later("archived_at", -timedelta(hours=1)), ALTERED),
    "Kafka's timestamp two hours ahead": Kind(later("timestamp", timedelta(hours=2)), ["late 1", "altered 1"]),
    "Kafka's timestamp 30 days back": Kind(later("timestamp", -30 * DAY), ALTERED),
    "type of the timestamp": Kind(put(timestamp_type=1), ALTERED),
    "offset ahead": Kind(later("offset", 1_000_000), ALTERED),
    "partition altered": Kind(put(partition=5), ALTERED),
    "ids exchanged": Kind(exchanged("event_id", "event_number"), ["altered 1", "altered 2"]),
    "payloads exchanged": Kind(exchanged("value"), ["altered 1", "altered 2"]),
    "offsets exchanged": Kind(exchanged("offset"), ["altered 1", "altered 2"]),
    "term lowered": Kind(later("term", -1), ALTERED),
    "term raised": Kind(later("term", 1), ALTERED),
    "term null": Kind(put(term=None), ALTERED),
    "ce_type altered": Kind(put(ce_type="paid"), ALTERED),
    "id of the topic altered": Kind(put(kafka_topic_id="another"), ALTERED),
    "mark of quarantine taken off": Kind(put(quarantine=None), ALTERED),
    # Of our own finding, in no list before.
    "all coordinates shifted alike": Kind(shifted, [f"altered {place}" for place in range(PER_KEY)]),
    "both clocks of no ledger back": Kind(backwards, ["misplaced 1", "altered 1"]),
    "null made empty": Kind(put(ce_subject=""), ALTERED),
    "empty made null": Kind(put(ce_source=None), ALTERED),
    "list emptied": Kind(put(quarantine=[]), ALTERED),
    "seal taken off": Kind(put(seal=None, seal_key=None, ce_type="paid"), ["unsealed 1"]),
    "seal without its key": Kind(put(seal_key=None), ["unsealed 1"]),
    "key without its seal": Kind(put(seal=None), ALTERED),
    "seal cut": Kind(lambda rows: put(seal=rows[1]["seal"][:16])(rows), ALTERED),
    "seals exchanged": Kind(exchanged("seal"), ["altered 1", "altered 2"]),
    "seal of a stranger's key": Kind(
        put(seal_key="0123456789abcdef", ce_type="paid"), ["sealed with another key 1"]
    ),
    "left alone": Kind(lambda rows: rows, []),
}  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """The audits before and after, and the events of each kind."""

    before: tuple[int, Any]
    after: tuple[int, Any]
    events: dict[str, list[SelftestRecord]]
    name: str

    def wanted(self, kind: str) -> Named:
        """What has to be named, in the form of ``found_in``."""
        return {self._named(kind, text) for text in KINDS[kind].wanted}

    def _named(self, kind: str, text: str) -> tuple[str, str]:
        fault, _, place = text.rpartition(" ")
        if place.isdecimal():
            return fault, self.events[kind][int(place)].event_id
        return fault, place.format(name=self.name)

    def found(self, kind: str) -> Named:
        """What is named of the kind's own events, and of strangers that it wants."""
        ids = {event.event_id for event in self.events[kind]} | {name for _, name in self.wanted(kind)}
        return {(fault, name) for fault, name in found_in(self.after[1]) if name in ids}


@pytest.fixture(scope="module")
def judged(spark: SparkSession, databases18: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """The lake after all kinds, as one audit sees it."""
    lake = LakeStorage(str(tmp_path_factory.mktemp("kinds") / "lake"))
    with databases18.fresh() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOKWIRE_DATABASE_URL", url)
        patch.setenv("HOOKWIRE_SECRET_KEYS", f"k1:{base64.b64encode(SECRET).decode()}")
        patch.setenv("HOOKWIRE_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        events, name = asyncio.run(accepted(url))
        rows = sealed_rows(spark, [event for of_kind in events.values() for event in of_kind])
        replaced(lake, [row for of_kind in rows.values() for row in of_kind])
        before = audit(lake.uri)
        changed = [row for kind, one in KINDS.items() for row in one.act(rows[kind])]
        named = [row | {"event_id": str(row["event_id"]).format(name=name)} for row in changed]
        replaced(lake, named)
        yield Judged(before, audit(lake.uri, "--examples", "100"), events, name)


async def accepted(url: str) -> tuple[dict[str, list[SelftestRecord]], str]:
    """Publish and carry four events for each kind, in a closed hour; return them, and the name of the installation."""
    async with relay_harness(url) as harness:
        name = await harness.connection.fetchval("SELECT incarnation FROM hookwire.installation")
        events: dict[str, list[SelftestRecord]] = {}
        for kind in KINDS:
            for place in range(PER_KEY):
                payload = f"{kind} {place}".encode()
                text = await harness.connection.fetchval(PUBLISHED, "orders", payload, kind, None, '{"x-trace": "1"}')
                number = int(text.rpartition("_")[2])
                event = SelftestRecord(number, kind, payload, number, incarnation=name)
                events.setdefault(kind, []).append(event)
        await purge(harness, [event.number for of_kind in events.values() for event in of_kind])
        await close_hours(harness)
        return events, name


def sealed_rows(spark: SparkSession, events: Sequence[SelftestRecord]) -> dict[str, list[Row]]:
    """As the archive writes them, by the kind of each, which is the key."""
    more = {"headers": headers(("x-trace", b"1")), "ce_type": "made", "ce_source": "", "kafka_topic_id": "an-id",
            "quarantine": ["headers"]}  # fmt: skip
    rows = [row | more for row in held(bronze_of(spark, events))]
    frame = frame_of(spark, [[row[column] for column in BRONZE.names] for row in rows], BRONZE)
    found: dict[str, list[Row]] = {}
    for row in sorted(held(sealed(frame, keys())), key=lambda row: int(row["event_number"])):
        found.setdefault(row["key"].decode(), []).append(row)
    return found


def keys() -> SealKeys:
    from app.cli.pipeline.options import seal_keys_of
    from app.settings.settings import load_settings

    return seal_keys_of(load_settings())


def replaced(lake: LakeStorage, rows: Sequence[Row]) -> None:
    """Let bronze hold these rows and no others, by a commit like ours. No job of Spark's writes them."""
    table = bronze(lake)
    table.upgrade()
    basis = table.snapshot()
    folders: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        columns = {name: value for name, value in row.items() if name not in ("dt", "topic")}
        folders.setdefault((row["dt"].isoformat(), row["topic"]), []).append(columns)
    added = tuple(
        table.write_rows(of_folder, {"dt": day, "topic": topic}, basis.number + 1)
        for (day, topic), of_folder in folders.items()
    )
    table.commit(basis, Change("archive", "run", added, tuple(file.path for file in basis.files)))


def test_the_lake_as_it_was_archived_is_clean(judged: Judged) -> None:
    """False alarms: none; every row is proved by its seal."""
    code, report = judged.before
    assert (code, report["findings"], report["lake"], report["unsealed"]) == (0, [], [], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_manipulation_is_named_with_its_event(judged: Judged, kind: str) -> None:
    """GP-04: exactly so, and its neighbours of the same key are not accused."""
    assert judged.found(kind) == judged.wanted(kind)


def test_nobody_else_is_accused(judged: Judged) -> None:
    """Silent: none; false alarms: none."""
    everything = {named for kind in KINDS for named in judged.wanted(kind)}
    assert (judged.after[0], found_in(judged.after[1]) ^ everything) == (1, set())


def test_the_database_knows_from_when_on_rows_are_sealed(judged: Judged) -> None:
    """The first audit of sealed rows notes it; here all are."""
    assert [report["sealed_from"][:10] for _, report in (judged.before, judged.after)] == ["1970-01-01"] * 2
