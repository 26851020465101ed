"""The long storey on S3: a nightly audit reads what is new, and next to nothing of what was proved (GP-09)."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.audit.selftest import HOUR
from pipeline.delta.snapshot import Change, DataFile
from pipeline.lake import bronze
from pipeline.s3 import S3Options
from pipeline.storage import LakeStorage
from tests.app.maintenance.test_ledger import folded, purge
from tests.kept_ledger import KEEP_FOR_EVER
from tests.pipeline.fetched import lake_jars
from tests.pipeline.foreign import row
from tests.pipeline.long_storey import s3_server
from tests.pipeline.s3_server import REQUESTS
from tests.pipeline.test_s3 import hookwire
from tests.relay.harness import Harness, relay_harness

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

LAKE = "s3a://lakes/nightly"
TOPICS = ("carts", "orders")
KEYS = "abcdefgh"
# As in conftest.py: frames of a few rows are planned and compiled for longer than they run.
QUICK = {
    "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}  # fmt: skip
PROVED_DAYS = 40
LOG_READS = 4
"""deltalake reads a commit three times for the state of a table, and we read it once at most."""
PER_DAY = len(TOPICS) * len(KEYS)
AT = HOUR + timedelta(minutes=7)


def day_of(place: int) -> date:
    return (HOUR + timedelta(days=place)).date()


class Nights:
    """A lake on S3 that gets one more day, and an audit of it. ``requests``: what the store has answered."""

    def __init__(self, url: str, options: S3Options, requests: Path, settings: Mapping[str, str]) -> None:
        self.lake = LakeStorage(LAKE, options)
        self._url = url
        self._requests = requests
        self._settings = settings
        self._days = 0

    def add_days(self, count: int) -> None:
        """Accept, carry and archive a few events of each topic on the next days, in one batch."""
        asyncio.run(self._add_days(range(self._days, self._days + count)))
        self._days += count

    async def _add_days(self, days: range) -> None:
        table = bronze(self.lake)
        table.upgrade()
        async with relay_harness(self._url) as harness:
            name = await harness.connection.fetchval("SELECT incarnation FROM hookwire.installation")
            found = {(day, topic): await accepted(harness, topic, day, name) for day in days for topic in TOPICS}
            await purge(harness, [each["event_number"] for rows in found.values() for each in rows])
            await folded(harness)
        basis = table.snapshot()
        places = {(day, topic): {"dt": day_of(day).isoformat(), "topic": topic} for day, topic in found}
        added = [table.write_rows(found[place], folders, basis.number + 1) for place, folders in places.items()]
        table.commit(basis, Change("archive", "run", tuple(added)))

    def files(self) -> Sequence[DataFile]:
        """The files of the lake."""
        return bronze(self.lake).snapshot().files

    def forge(self, file: DataFile) -> None:
        """Put another object in the place of a file: the same rows with other payloads."""
        path = f"bronze/{file.path}"
        rows = pq.ParquetFile(pa.BufferReader(self.lake.read(path))).read()
        place, forged = rows.schema.get_field_index("value"), pa.array([b"forged"] * rows.num_rows, pa.binary())
        draft = io.BytesIO()
        pq.write_table(rows.set_column(place, rows.schema.field(place), forged), draft, compression="zstd")
        self.lake.replace(path, draft.getvalue())

    def audit(self) -> tuple[int, Any, Counter[str]]:
        """Return exit code and report, and the bytes of each file that were read meanwhile."""
        self._requests.write_text("")
        code, said, errors = hookwire("audit", "--json", **self._settings)
        assert said, errors
        read: Counter[str] = Counter()
        for line in self._requests.read_text().splitlines():
            method, path, size = line.split(" ")
            read[path.removeprefix("/lakes/nightly/")] += int(size) if method == "GET" else 0
        return code, json.loads(said), read


async def accepted(harness: Harness, topic: str, day: int, name: str) -> list[dict[str, Any]]:
    """Accept an event of each key on this day, and return the rows that the archive makes of them."""
    payload, at = os.urandom(400).hex().encode(), AT + timedelta(days=day)
    ids = await harness.publish(*KEYS, topic=topic, payload=payload)
    await harness.connection.execute("UPDATE hookwire.events SET accepted_at = $2 WHERE id = ANY($1)", ids, at)
    await harness.connection.execute("UPDATE hookwire.ledger_cursor SET since_at = $1", HOUR - timedelta(hours=1))
    await harness.connection.execute(KEEP_FOR_EVER)
    return [
        row(number, key, value=payload, event_id=f"evt_{name}_{number}", timestamp=at, accepted_at=at, archived_at=at)
        for number, key in zip(ids, KEYS, strict=True)
    ]


@pytest.fixture
def nights(database_url: str, tmp_path: Path) -> Iterator[Nights]:
    with s3_server(tmp_path) as (options, trouble):
        settings = {
            "HOOKWIRE_DATABASE_URL": database_url, "HOOKWIRE_DATA_DIR": str(tmp_path / "data"),
            "HOOKWIRE_PIPELINE_LAKE": LAKE, "HOOKWIRE_PIPELINE_MASTER": "local[2]",
            "HOOKWIRE_PIPELINE_S3_ENDPOINT": options.endpoint, "HOOKWIRE_PIPELINE_S3_ACCESS_KEY": options.access_key,
            "HOOKWIRE_PIPELINE_S3_SECRET_KEY": options.secret_key,
            "HOOKWIRE_PIPELINE_CONF": json.dumps({"spark.jars": ",".join(lake_jars()), **QUICK}),
            "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
        }  # fmt: skip
        yield Nights(database_url, options, trouble.with_name(REQUESTS), settings)


def test_a_nightly_audit_reads_a_twentieth_of_what_was_proved_at_most(nights: Nights) -> None:
    """GP-09: of the last proved day the order of its keys, once; of the log each commit as often as one opening does.

    A day with a swapped object is read, and named.
    """
    nights.add_days(PROVED_DAYS)
    assert nights.audit()[0] == 0
    files = nights.files()
    nights.add_days(1)
    code, report, read = nights.audit()
    assert (code, report["remembered"], report["records"]) == (0, PROVED_DAYS * PER_DAY, PER_DAY)
    proved, whole = sum(read[f"bronze/{file.path}"] for file in files), sum(file.bytes for file in files)
    print(f"{proved:,} of {whole:,} bytes of {len(files)} proved files; {told(read)}")  # for benchmarks/README.md
    assert proved <= 0.05 * whole
    assert {file.day for file in files if read[f"bronze/{file.path}"]} == {day_of(PROVED_DAYS - 1)}
    log = nights.lake.files("bronze/_delta_log")
    assert [path for path, size in log.items() if read[path] > LOG_READS * size] == []

    swapped = next(file for file in files if file.day == day_of(PROVED_DAYS - 2))
    nights.forge(swapped)
    code, report, _ = nights.audit()
    assert (code, report["remembered"]) == (1, (PROVED_DAYS - 2) * PER_DAY)
    assert [(found["fault"], found["count"]) for found in report["findings"]] == [("altered", len(KEYS))]


def told(read: Counter[str]) -> str:
    """The bytes of each kind of file that were read."""
    kinds: Counter[str] = Counter()
    for path, size in read.items():
        kinds["logs" if "_delta_log" in path else "data" if path.endswith(".parquet") else "others"] += size
    return ", ".join(f"{kind} {size:,}" for kind, size in sorted(kinds.items()))
