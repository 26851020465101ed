"""The bytes that a nightly audit of a lake on S3 reads again of what was proved before (GP-09).

    python -m benchmarks.nightly --days 250 --topics 40 --events 100

The hub has the events, and its ledger counts them. Their rows are written and sealed as the archive does it, but
without Spark. There is a file for each day and topic, a commit for each day, and a checkpoint when one is due. The lake
is then put into the S3 server of the tests, which notes each request with the bytes of its answer. ``hookwire pipeline
audit`` proves the whole lake. Then one more day comes, and the same command runs again as it would at night. The
yardstick is the size of the files that were proved. The log is counted beside them, because a nightly audit reads it
too.

The server of the tests is slow, so the first audit takes hours on a busy machine. ``--remember`` stores the proofs that
it would store, by the product's own functions, without reading the rows. A run without this option compares both.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha512
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from urllib.parse import quote
from urllib.request import Request, urlopen

import asyncpg

from app.assembly.storage import incarnation_of
from app.cli.pipeline.auditing.memory import recalled
from app.cli.pipeline.auditing.seals import keys_here, known_seals
from app.cli.pipeline.marks import store_marks
from app.maintenance.ledger import Ledger
from app.settings.settings import load_settings
from benchmarks.harness import Harness, running_harness
from db.direct import connect_direct
from db.pool import PoolOptions, Session, open_database
from pipeline.audit.held import HeldLake
from pipeline.audit.inquiry import Cell
from pipeline.audit.seal import SealKeys
from pipeline.delta.snapshot import Change, DataFile, State
from pipeline.lake import bronze
from pipeline.s3 import S3Options
from pipeline.schema import BRONZE
from pipeline.storage import LakeStorage
from pipeline.tables import lake_tables
from tests.pipeline.fetched import lake_jars
from tests.pipeline.long_storey import s3_server
from tests.pipeline.s3_server import REQUESTS

BAR: Final = 0.05
LAKE: Final = "s3a://lakes/nightly"
_SPAN: Final = 50 * 60 * 1_000_000
"""The events of a day lie in so many microseconds of one hour."""
_KEYS: Final = 1_000
_PARTITIONS: Final = 4
_PARTS: Final = 4
"""A payload has so many SHA-512 in digits: 512 bytes, of which compression leaves a half."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENTRY: Final = 1_000
_EVENTS: Final = """
INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
SELECT n, $3::timestamptz + make_interval(days => ((n - 1) / ($4::bigint * $5))::int)
          + (n - 1) % ($4 * $5) * $6::bigint * interval '1 microsecond',
       true, 'default', 'topic' || (n - 1) / $5 % $4, 'key ' || n % $7::bigint, '{}', '{kafka}',
       (SELECT string_agg(encode(sha512((n || ':' || part)::bytea), 'hex'), '' ORDER BY part)
        FROM generate_series(1, $8::int) AS part)::bytea
FROM generate_series($1::bigint, $2::bigint) AS n
"""
_ENTRIES: Final = """
INSERT INTO hookwire.ledger_entries (sink, outcome, ids)
SELECT 'kafka', 'sent', array_agg(n)
FROM generate_series($1::bigint, $2::bigint) AS n GROUP BY n / $3 ORDER BY n / $3
"""


@dataclass(frozen=True)
class Shape:
    """The events of the lake: from ``first`` on so many of each topic on each day, in the order of their numbers."""

    first: datetime
    topics: int
    events: int

    @property
    def per_day(self) -> int:
        """Return the number of events of a day."""
        return self.topics * self.events

    def span(self, days: range) -> tuple[int, int]:
        """Return the first and the last number of these days."""
        return days.start * self.per_day + 1, days.stop * self.per_day

    @property
    def topic_ids(self) -> dict[str, str]:
        """Return an id of Kafka for each topic."""
        return {f"topic{number}": f"{number:022d}" for number in range(self.topics)}

    def at(self, number: int) -> datetime:
        """Return the time at which an event was accepted."""
        day, place = divmod(number - 1, self.per_day)
        return self.first + timedelta(days=day, microseconds=place * (_SPAN // self.per_day))

    def offsets(self, day: int) -> dict[str, dict[int, int]]:
        """Return an offset for each partition, as an archive notes them in its commit of this day."""
        after = (day + 1) * self.per_day + 1
        return {topic: dict.fromkeys(range(_PARTITIONS), after) for topic in self.topic_ids}


async def accept(harness: Harness, shape: Shape, days: range) -> str:
    """Let the hub have the events of these days, all in Kafka, and its ledger count them; return its name."""
    first, last = shape.span(days)
    step = _SPAN // shape.per_day
    connection = await asyncpg.connect(harness.database_url, timeout=60, command_timeout=1800)
    database = await open_database(PoolOptions(harness.database_url, connections_max=2))
    try:
        await connection.execute(_EVENTS, first, last, shape.first, shape.topics, shape.events, step, _KEYS, _PARTS)
        await connection.execute(_ENTRIES, first, last, _ENTRY)
        await connection.execute("SELECT setval('hookwire.event_id', $1)", last)
        await connection.execute("UPDATE hookwire.ledger_cursor SET since_at = $1", shape.first - timedelta(hours=1))
        await connection.execute("ANALYZE hookwire.events")
        while await connection.fetchval("SELECT through_id FROM hookwire.ledger_cursor") < last:
            await Ledger(database).fold()
        name: str = await connection.fetchval("SELECT incarnation FROM hookwire.installation")
    finally:
        await database.aclose()
        await connection.close(timeout=60)
    return name


def rows(shape: Shape, day: int, topic: int, incarnation: str, keys: SealKeys) -> list[dict[str, Any]]:
    """Return the rows of bronze of a day and topic, sealed as the archive seals them."""
    first, topic_id = day * shape.per_day + topic * shape.events, shape.topic_ids[f"topic{topic}"]
    [key, *_], [name, *_] = keys.keys, keys.names
    found = []
    for number in range(first + 1, first + shape.events + 1):
        at = shape.at(number)
        parts = (sha512(f"{number}:{part}".encode()).hexdigest() for part in range(1, _PARTS + 1))
        row = {
            "topic": f"topic{topic}", "partition": number % _PARTITIONS, "offset": number, "timestamp": at,
            "timestamp_type": 0, "key": b"key %d" % (number % _KEYS), "value": "".join(parts).encode(),
            "event_id": f"evt_{incarnation}_{number}", "event_number": number, "sequence": number, "term": 7,
            "accepted_at": at, "archived_at": at, "kafka_topic_id": topic_id, "dt": at.date(),
        }  # fmt: skip
        found.append(row | {"seal": seal(row, key), "seal_key": name})
    return found


def seal(row: Mapping[str, Any], key: bytes) -> str:
    """Return the seal of a row without lists, as ``pipeline.audit.seal`` describes it. A wrong one is a finding."""
    held = ((name, _bytes(row[name])) for name in BRONZE.names if row.get(name) is not None)
    text = b"".join(b"%s=%d:%s" % (name.encode(), len(value), value) for name, value in held)
    return hmac.digest(key, text, "sha256").hex()[:32]


def _bytes(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case datetime():
            return b"%d" % ((value - _EPOCH) // timedelta(microseconds=1))
        case date():
            return b"%d" % (value - _EPOCH.date()).days
    return str(value).encode()


@dataclass
class Place:
    """A lake in a folder, and its copy on S3. ``requests``: the file in which the server notes what it answers."""

    folder: LakeStorage
    store: LakeStorage
    endpoint: str
    requests: Path
    copied: set[str] = field(default_factory=set)

    def archive(self, shape: Shape, days: range, incarnation: str, keys: SealKeys) -> None:
        """Write the days, a commit for each, and copy what is new: the log behind the files that it names."""
        table = bronze(self.folder)
        basis = table.snapshot()
        for day in days:
            files = []
            for topic in range(shape.topics):
                of = rows(shape, day, topic, incarnation, keys)
                folders = {"dt": of[0]["dt"].isoformat(), "topic": of[0]["topic"]}
                files.append(table.write_rows(of, folders, basis.number + 1))
            state = State(shape.offsets(day), shape.topic_ids)
            basis = table.commit(basis, Change("archive", "bench", tuple(files), state=state))
            if table.needs_checkpoint():
                table.checkpoint()
        self._copy()

    def _copy(self) -> None:
        found = {path for path in self.folder.files("bronze") if not path.rpartition("/")[2].startswith(".")}
        new = {path for path in found if path not in self.copied or path.endswith("_last_checkpoint")}
        log = {path for path in new if "_delta_log" in path}
        for part in (new - log, log):
            self.store.each(sorted(part), self._put)
        self.copied |= new

    def _put(self, path: str) -> None:
        """Store a file by one request; the clients of the product take three or more for each.

        Such a request has no signature, so it replaces nothing.
        """
        if path in self.copied:
            self.store.replace(path, self.folder.read(path))
            return
        url = f"{self.endpoint}/{LAKE.removeprefix('s3a://')}/{quote(path)}"
        headers = {"Content-Type": "application/octet-stream"}
        urlopen(Request(url, self.folder.read(path), headers, method="PUT"), timeout=600).close()

    def files(self) -> dict[str, int]:
        """Return the path and the size of each file of the table."""
        return {self._path(file): file.bytes for file in bronze(self.folder).snapshot().files}

    @staticmethod
    def _path(file: DataFile) -> str:
        return f"bronze/{file.path}"

    def audit(self, environment: Mapping[str, str]) -> Audited:
        """Audit; raises RuntimeError unless it ends with 0."""
        self.requests.write_text("")
        began = perf_counter()
        command = [str(Path(sys.executable).with_name("hookwire")), "pipeline", "audit", "--json"]
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
        seconds = perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stdout[-2_000:]} {done.stderr[-2_000:]}")
        lines = (line.split(" ") for line in self.requests.read_text().splitlines())
        answers = [(method, path.removeprefix("/lakes/nightly/"), int(size)) for method, path, size in lines]
        return Audited(json.loads(done.stdout), answers, seconds)


@dataclass(frozen=True)
class Audited:
    """What came of an audit: its report, each answer of the store as method, path and bytes, and the seconds."""

    report: Mapping[str, Any]
    answers: Sequence[tuple[str, str, int]]
    seconds: float

    def tell(self, name: str, proved: Mapping[str, int]) -> float:
        """Print what was read; return the bytes beside those of the proved files, without the new files' own."""
        whole, read, gets, touched = sum(proved.values()), Counter[str](), Counter[str](), set[str]()
        methods = Counter(method for method, _, _ in self.answers)
        for method, path, size in self.answers:
            if method != "HEAD":
                read[_kind(path, proved)] += size
                gets[_kind(path, proved)] += 1
                touched.add(path)
        asked = ", ".join(f"{count:,} {method}" for method, count in sorted(methods.items()))
        records, remembered = self.report["records"], self.report["remembered"]
        print(f"{name}: {records:,} records read, {remembered:,} remembered; {self.seconds:.0f} s; {asked}")
        for kind, size in sorted(read.items()):
            print(f"    {kind:20} {gets[kind]:8,} GETs {size:14,} bytes {size / whole:8.2%} of the proved files' bytes")
        print(f"    proved files with a byte read: {len(touched & proved.keys()):,} of {len(proved):,}", flush=True)
        return (read.total() - read["new files"]) / whole


def _kind(path: str, proved: Mapping[str, int]) -> str:
    if path in proved:
        return "proved files"
    if "_delta_log/" in path:
        return "log: checkpoints" if "checkpoint" in path else "log: commits"
    return "new files" if path.endswith(".parquet") else "listings and others"


class Night:
    """A hub, a lake on S3 and its audits. ``environment``: that of the commands."""

    def __init__(self, harness: Harness, place: Place, options: S3Options, shape: Shape) -> None:
        self.place = place
        self.environment = harness.environment | {
            "HOOKWIRE_PIPELINE_LAKE": LAKE, "HOOKWIRE_PIPELINE_MASTER": "local[2]",
            "HOOKWIRE_PIPELINE_S3_ENDPOINT": options.endpoint, "HOOKWIRE_PIPELINE_S3_ACCESS_KEY": options.access_key,
            "HOOKWIRE_PIPELINE_S3_SECRET_KEY": options.secret_key,
            "HOOKWIRE_PIPELINE_CONF": json.dumps({"spark.jars": ",".join(lake_jars())}),
        }  # fmt: skip
        self._harness = harness
        self._shape = shape
        self._settings = load_settings(self.environment)
        self._keys = keys_here(self._settings)

    def add(self, days: range) -> None:
        """Accept and archive these days, and note in the database what an archive notes."""
        began = perf_counter()
        incarnation = asyncio.run(accept(self._harness, self._shape, days))
        accepted = perf_counter()
        self.place.archive(self._shape, days, incarnation, self._keys)
        asyncio.run(self._note())
        last = perf_counter()
        print(f"{len(days)} days accepted in {accepted - began:.0f} s, archived in {last - accepted:.0f} s", flush=True)

    async def _note(self) -> None:
        async with self._session() as session:
            await session.execute("lake_mark.seal", LAKE, _EPOCH, 0, self._keys.names[0])
            await store_marks(session, self.place.store, lake_tables(self.place.store))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        async with aclosing(await connect_direct(PoolOptions(self._harness.database_url))) as session:
            yield session

    async def proofs(self) -> list[tuple[Any, ...]]:
        """Return what the database remembers of the audits."""
        async with self._session() as session:
            return [tuple(row.values()) for row in await session.fetch("lake.proofs", LAKE)]

    async def remember(self) -> None:
        """Store the proofs that an audit of the whole lake stores, without reading its rows: they are as accepted."""
        settings, store = self._settings, self.place.store
        async with self._session() as session:
            span = await session.fetchrow("lake.span")
            assert span is not None
            owed = await session.fetch("lake.cells", settings.kafka_topic_prefix, span["since"], span["until"])
            seals = await known_seals(session, settings, store)
            is_idempotent = settings.kafka_mode == "idempotent"
            options = (await incarnation_of(session), settings.pipeline_late_seconds, is_idempotent, seals.since)
            # On S3 no executor hashes a file, so no Spark is needed.
            memory = await recalled(session, None, HeldLake(store), owed, options, span["since"].date())
            cells = [
                Cell(
                    row["topic"], row["hour"], row["bucket"], row["owed"], row["owed_low"], row["owed_high"],
                    row["owed"], 0, 0, 0, is_equal=True, has_contents=True,
                )
                for row in owed
            ]  # fmt: skip
            await memory.store(session, span["since"], span["until"], cells, (), {})


def measured(night: Night, days: int, *, remembers: bool) -> None:
    """Fill hub and lake, audit twice, and print."""
    night.add(range(days))
    proved = night.place.files()
    print(f"{len(proved):,} files of {sum(proved.values()):,} bytes", flush=True)
    if remembers:
        asyncio.run(night.remember())
        print("the first audit was left out: its proofs were stored without reading the rows", flush=True)
    else:
        night.place.audit(night.environment).tell("the first audit", proved)
        found = asyncio.run(night.proofs())
        asyncio.run(night.remember())
        assert (sorted(found), len(found)) == (sorted(asyncio.run(night.proofs())), len(proved))
    night.add(range(days, days + 1))
    share = night.place.audit(night.environment).tell("the nightly audit", proved)
    word = "met" if share <= BAR else "MISSED"
    print(
        f"all that it read but the new day's files: {share:.2%} of the proved files' bytes; bar {BAR:.0%}, "
        f"ratio {share / BAR:.2f}: {word}"
    )


async def run(days: int, shape: Shape, *, remembers: bool) -> None:
    """Start the servers, and measure."""
    with tempfile.TemporaryDirectory(prefix="hookwire-bench-") as name, s3_server(Path(name)) as (options, trouble):
        async with running_harness("api") as harness:
            folder, store = LakeStorage(f"{name}/lake"), LakeStorage(LAKE, options)
            place = Place(folder, store, options.endpoint, trouble.with_name(REQUESTS))
            night = await asyncio.to_thread(Night, harness, place, options, shape)
            await asyncio.to_thread(measured, night, days, remembers=remembers)
    print(f"load of the machine: {' '.join(f'{one:.1f}' for one in os.getloadavg())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--days", type=int, default=250, help="proved days")
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--events", type=int, default=100, help="of each topic on a day")
    parser.add_argument("--remember", action="store_true", help="store the first audit's proofs, and do not run it")
    options = parser.parse_args()
    # The hours of the day before yesterday are closed.
    newest = datetime.combine(datetime.now(UTC).date() - timedelta(days=2), time(9, 5), UTC)
    shape = Shape(newest - timedelta(days=options.days), options.topics, options.events)
    asyncio.run(run(options.days, shape, remembers=options.remember))


if __name__ == "__main__":
    main()
