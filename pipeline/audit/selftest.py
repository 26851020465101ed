"""Self-test: plants each fault once in a scratch lake; an audit that does not name all of them is broken (PL-A11).

An audit that never reports a fault would prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession

from pipeline.audit.cell import LEDGER
from pipeline.audit.evidence import BUCKETS, evidence
from pipeline.audit.inquiry import compare_cells, count_suspects, in_question, inquire
from pipeline.audit.verdict import ACCEPTED
from pipeline.frame import frame_of
from pipeline.schema import BRONZE

__all__ = ["HOUR", "INCARNATION", "SelftestRecord", "bronze_of", "ledger_of", "planted", "self_test"]

INCARNATION = "selftest"
HOUR = datetime(2026, 1, 15, 9, tzinfo=UTC)
_AT = HOUR + timedelta(minutes=7)
_EVENTS = 200
_KEYS = 10
_LATE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class SelftestRecord:
    """One record of the scratch lake."""

    number: int
    key: str | None
    value: bytes
    offset: int
    term: int = 7
    incarnation: str = INCARNATION
    delay_seconds: int = 0

    @property
    def event_id(self) -> str:
        """Return the id in its header."""
        return f"evt_{self.incarnation}_{self.number}"

    @property
    def digest(self) -> str:
        """Return the write side's hash of its contents, computed without Spark."""
        micros = int(_AT.timestamp()) * 1_000_000
        sequence, key = (str(self.number), f"={self.key}") if self.key else ("-", "-")
        members = "\x1f".join([str(self.number), str(micros), sequence, key, "-", "", "="])
        return sha256(members.encode() + self.value).hexdigest()[:16]


def self_test(spark: SparkSession) -> dict[str, bool]:
    """Return for each planted fault whether the audit named it with its event, and whether a clean lake has none."""
    events = list(_clean())
    records, names = planted(events)
    accepted, ledger = _accepted_of(spark, events), ledger_of(spark, events)
    clean = _found(accepted, bronze_of(spark, events), ledger)
    found = _found(accepted, bronze_of(spark, records), ledger)
    verdicts = {fault: event_id in found.get(fault, ()) for fault, event_id in names.items()}
    return {"clean": clean == {}, **verdicts, "nothing else": sum(map(len, found.values())) == len(names)}


def planted(accepted: Sequence[SelftestRecord]) -> tuple[list[SelftestRecord], dict[str, str]]:
    """Return records with each fault once, in a key of its own, and the event ids that must be named."""
    names: dict[str, str] = {}

    def of(key: int, place: int, fault: str) -> SelftestRecord:
        record = [record for record in accepted if record.key == f"key {key}"][place]
        names[fault] = record.event_id
        return record

    lost = of(0, 4, "lost")
    twice = of(1, 4, "duplicated")
    overtaking, overtaken = of(2, 5, "reordered"), of(2, 4, "reordered")
    stale = of(3, 9, "stale term")
    altered = of(4, 4, "altered")
    late = of(6, 4, "late")
    phantom = replace(accepted[-1], number=_EVENTS + 5, key="key 5", offset=_EVENTS * 10)
    names["phantom"] = phantom.event_id
    changes = {
        lost: [],
        twice: [twice, replace(twice, offset=_EVENTS * 10 + 1)],
        overtaken: [replace(overtaken, offset=overtaking.offset)],
        overtaking: [replace(overtaking, offset=overtaken.offset)],
        stale: [replace(stale, term=6)],
        altered: [replace(altered, value=b"forged")],
        late: [replace(late, delay_seconds=_LATE_SECONDS + 1)],
    }
    records = [changed for record in accepted for changed in changes.get(record, [record])]
    return [*records, phantom], names


def _clean() -> Iterator[SelftestRecord]:
    for number in range(1, _EVENTS + 1):
        yield SelftestRecord(number, f"key {number % _KEYS}", b"payload %d" % number, number * 3)


def _found(accepted: DataFrame, bronze: DataFrame, ledger: DataFrame) -> dict[str, list[str]]:
    records = evidence(bronze, INCARNATION, _LATE_SECONDS)
    cells = compare_cells(records, ledger)
    findings = inquire(
        records, accepted, cells, in_question(cells),
        suspects_found=count_suspects(records), repeats_are_legal=False,
    )  # fmt: skip
    found: dict[str, list[str]] = {}
    for finding in findings:
        found.setdefault(finding.fault, []).extend(finding.examples)
    return found


def bronze_of(spark: SparkSession, records: Sequence[SelftestRecord]) -> DataFrame:
    """Return the records as a lake in memory."""
    shared = {
        "topic": "orders", "partition": 0, "timestamp_type": 0, "headers": [], "accepted_at": _AT,
        "archived_at": _AT, "dt": _AT.date(),
    }  # fmt: skip
    rows = [
        {
            **shared, "offset": record.offset, "key": record.key.encode() if record.key else None,
            "value": record.value, "event_id": record.event_id, "event_number": record.number, "term": record.term,
            "sequence": record.number if record.key else None,
            "timestamp": _AT + timedelta(seconds=record.delay_seconds),
        }
        for record in records
    ]  # fmt: skip
    return frame_of(spark, [[row.get(name) for name in BRONZE.names] for row in rows], BRONZE)


def ledger_of(spark: SparkSession, accepted: Sequence[SelftestRecord]) -> DataFrame:
    """Return the write side's cells of these events."""
    rows = []
    for bucket in range(BUCKETS):
        of_bucket = [record for record in accepted if record.number % BUCKETS == bucket]
        ids = [record.number for record in of_bucket]
        if ids:
            contents = sum(int(record.digest, 16) for record in of_bucket) % 2**64
            sums = Decimal(_ledger_sum(ids)), min(ids), max(ids), Decimal(contents)
            rows.append(("orders", HOUR, bucket, len(ids), *sums))
    return frame_of(spark, rows, LEDGER)


def _accepted_of(spark: SparkSession, accepted: Sequence[SelftestRecord]) -> DataFrame:
    rows = [(r.number, r.event_id, "orders", HOUR, "sent", r.digest) for r in accepted]
    return frame_of(spark, rows, ACCEPTED)


def _ledger_sum(numbers: Sequence[int]) -> int:
    """Return the ledger's checksum, computed without Spark."""
    return sum(int.from_bytes(sha256(n.to_bytes(8, "big")).digest()[:8], "big") for n in numbers) % 2**64
