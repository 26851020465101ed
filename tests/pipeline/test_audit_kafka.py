"""What a stranger may write into Kafka: one archive and one audit name each record, by its event or its place.

The records are read from a real broker. They are archived as of the hour in which they were accepted, so that this
hour can be judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from pipeline.audit.selftest import HOUR, SelftestRecord
from pipeline.bronze import to_bronze
from pipeline.delta.snapshot import Change
from pipeline.kafka_range import Range
from pipeline.kafka_reader import bounds_of, read_ranges
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from scripts.servers.kafka import KafkaServer
from tests.app.maintenance.test_ledger import close_hours, purge
from tests.databases import Databases
from tests.pipeline.broker import Written, kafka_options, make, record_of, write
from tests.pipeline.test_audit_command import audit
from tests.pipeline.test_tampering import PUBLISHED, found_in
from tests.relay.harness import relay_harness

PREFIX: Final = "kinds-"
ORDERS, CARTS, NOBODYS = (f"{PREFIX}{name}" for name in ("orders", "carts", "nobodys"))
LOST: Final = ("lost event", "phantom place")
PHANTOM: Final = ("phantom place",)
KINDS: Final[dict[str, Sequence[str]]] = {
    "left alone": (),
    "foreign record": PHANTOM,
    "payload forged": ("altered event",),
    "never issued": ("phantom evt_{name}_77000000",),
    "never issued, of 2001": ("phantom evt_{name}_77000001",),
    "never issued, of 2099": ("phantom evt_{name}_77000002",),
    "of another incarnation": ("phantom evt_zzzzzzzz_9",),
    "dated the day before": ("misplaced event", "altered event"),
    "tombstone": ("altered event",),
    "in another topic": ("lost event", "phantom event"),
    "two ids": ("lost event", "phantom evt_{name}_77000003"),
    "exact copy": ("duplicated event",),
    "leading zero": LOST,
    "id above 64 bits": PHANTOM,
    "no UTF-8 in the id": LOST,
    "no UTF-8 in the key": ("altered event",),
    "committed transaction of a stranger": PHANTOM,
    "another time without a zone": ("altered event",),
    "year 10000": ("altered event",),
    "900 KB": PHANTOM,
    "unknown topic": PHANTOM,
    "new partition": PHANTOM,
    "aborted transaction": (),
}
"""Each with the faults that an audit has to name. ``place`` is the record's place in Kafka."""


@dataclass(frozen=True)
class Judged:
    code: int
    found: set[tuple[str, str]]
    events: dict[str, SelftestRecord]
    places: dict[str, str]
    name: str

    def wanted(self, kind: str) -> set[tuple[str, str]]:
        return {(fault, self._called(kind, what)) for fault, _, what in (text.partition(" ") for text in KINDS[kind])}

    def _called(self, kind: str, what: str) -> str:
        known = {"event": self.events[kind].event_id, "place": self.places.get(kind, "")}
        return known.get(what) or what.format(name=self.name)


def changed(record: Written, **headers: bytes) -> Written:
    """Other values of headers, whose names have ``_`` for ``-`` here."""
    key, value, partition, pairs = record
    new = {f"hookwire-{name.replace('_', '-')}": text for name, text in headers.items()}
    return key, value, partition, [(name, new.get(name, text)) for name, text in pairs]


def records_of(events: dict[str, SelftestRecord], name: str) -> dict[str, list[tuple[str, Written]]]:
    """Return what is written for each kind: topics and records."""
    own = {kind: record_of(event) for kind, event in events.items()}
    plain: Written = (b"k", b"forged", 0, [])

    def with_event(kind: str, record: Written, topic: str = ORDERS) -> list[tuple[str, Written]]:
        return [(ORDERS, own[kind]), (topic, record)]

    def strange(event_id: str, at: bytes = b"2026-01-15T09:07:00+00:00") -> Written:
        changed_one = changed(own["left alone"], event_id=event_id.encode(), accepted_at=at)
        return (b"a key of its own", *changed_one[1:])

    zero, two = events["leading zero"], own["two ids"]
    instead = {
        "payload forged": (own["payload forged"][0], b"forged", *own["payload forged"][2:]),
        "dated the day before": changed(own["dated the day before"], accepted_at=b"2026-01-14T23:59:59+00:00"),
        "tombstone": (own["tombstone"][0], None, *own["tombstone"][2:]),
        "two ids": (*two[:3], [*two[3], ("hookwire-event-id", f"evt_{name}_77000003".encode())]),
        "leading zero": changed(own["leading zero"], event_id=f"evt_{name}_0{zero.number}".encode()),
        "no UTF-8 in the id": changed(own["no UTF-8 in the id"], event_id=b"evt_\xff\xfe"),
        "no UTF-8 in the key": (b"\xff\xfe", *own["no UTF-8 in the key"][1:]),
        "another time without a zone": changed(own["another time without a zone"], accepted_at=b"2026-01-15T09:08:00"),
        "year 10000": changed(own["year 10000"], accepted_at=b"+10000-01-15T09:07:00+00:00"),
    }
    beside = {
        "exact copy": own["exact copy"],
        "never issued": strange(f"evt_{name}_77000000"),
        "never issued, of 2001": strange(f"evt_{name}_77000001", b"2001-01-01T00:00:00Z"),
        "never issued, of 2099": strange(f"evt_{name}_77000002", b"2099-01-01T00:00:00Z"),
        "of another incarnation": strange("evt_zzzzzzzz_9"),
        "id above 64 bits": strange(f"evt_{name}_99999999999999999999"),
        "foreign record": plain,
        "900 KB": (b"k", b"x" * 900_000, 0, []),
        "new partition": (b"k", b"forged", 1, []),
    }
    made = {kind: [(ORDERS, record)] for kind, record in instead.items()}
    made |= {kind: with_event(kind, record) for kind, record in beside.items()}
    made["in another topic"] = [(CARTS, own["in another topic"])]
    made["unknown topic"] = with_event("unknown topic", plain, NOBODYS)
    return made | {kind: [(ORDERS, own[kind])] for kind in KINDS if kind not in made}


@pytest.fixture(scope="module")
def judged(
    spark: SparkSession, kafka: KafkaServer, databases18: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judged]:
    lake = LakeStorage(str(tmp_path_factory.mktemp("kafka") / "lake"))
    with databases18.fresh() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOKWIRE_DATABASE_URL", url)
        patch.setenv("HOOKWIRE_KAFKA_TOPIC_PREFIX", PREFIX)
        patch.setenv("HOOKWIRE_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        events, name = asyncio.run(accepted(url))
        places = written(kafka, records_of(events, name))
        archived(spark, kafka, lake)
        code, report = audit(lake.uri, "--examples", "100")
        yield Judged(code, found_in(report), events, places, name)


async def accepted(url: str) -> tuple[dict[str, SelftestRecord], str]:
    async with relay_harness(url) as harness:
        name = await harness.connection.fetchval("SELECT incarnation FROM hookwire.installation")
        events = {}
        for kind in KINDS:
            text = await harness.connection.fetchval(PUBLISHED, "orders", b"x", kind, None, "{}")
            number = int(text.rpartition("_")[2])
            events[kind] = SelftestRecord(number, kind, b"x", number, incarnation=name)
        await purge(harness, [event.number for event in events.values()])
        await close_hours(harness)
        return events, name


def written(kafka: KafkaServer, records: dict[str, list[tuple[str, Written]]]) -> dict[str, str]:
    """Write all records; return for each kind the place of its last one."""
    make(kafka, ORDERS, 2)
    make(kafka, CARTS)
    make(kafka, NOBODYS)
    by_topic: dict[str, list[tuple[str, Written]]] = {}
    for kind, pairs in records.items():
        for topic, record in pairs:
            by_topic.setdefault(topic, []).append((kind, record))
    places: dict[str, str] = {}
    for topic, of in by_topic.items():
        offsets: dict[int, int] = {}
        for kind, (_, _, partition, _) in of:
            places[kind] = f"{topic}:{partition}:{offsets.get(partition, 0)}"
            offsets[partition] = offsets.get(partition, 0) + 1
        write(kafka, topic, [record for _, record in of])
    alone: Written = (b"k", b"forged", 0, [])
    kind = "committed transaction of a stranger"
    places[kind] = f"{ORDERS}:0:{end_of(kafka, ORDERS)}"
    write(kafka, ORDERS, [alone], [alone], abort=[1])
    return places


def end_of(kafka: KafkaServer, topic: str) -> int:
    return bounds_of(kafka_options(kafka), {topic: 2})[topic, 0].end


def archived(spark: SparkSession, kafka: KafkaServer, lake: LakeStorage) -> None:
    """A batch as the archive makes it, at the time of the events."""
    bounds = bounds_of(kafka_options(kafka), {ORDERS: 2, CARTS: 1, NOBODYS: 1})
    ranges = [Range(topic, number, of.low, of.end) for (topic, number), of in sorted(bounds.items()) if of.end > of.low]
    rows: Any = to_bronze(read_ranges(spark, kafka_options(kafka), ranges), HOUR + timedelta(minutes=8))
    table = bronze(lake)
    table.commit(table.snapshot(), Change("archive", "run", table.write(rows.coalesce(1), 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_a_stranger_is_named(judged: Judged, kind: str) -> None:
    """PL-A08: by the event's id, or by the place in Kafka."""
    of_kind = {judged.events[kind].event_id, judged.places.get(kind, "")} | {name for _, name in judged.wanted(kind)}
    assert {(fault, name) for fault, name in judged.found if name in of_kind} == judged.wanted(kind)


def test_nobody_else_is_accused(judged: Judged) -> None:
    """Silent: none; false alarms: none."""
    wanted = {named for kind in KINDS for named in judged.wanted(kind)}
    assert (judged.code, judged.found ^ wanted) == (1, set())
