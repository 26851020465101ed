"""A Spark session that archives in forked drivers, so that a driver can be killed at any line: run by tests.

    python -m tests.pipeline.archiver '{"spark.jars": ...}'

It reads an order in JSON from each line of standard input, and writes a line of JSON for each. A driver is a fork of
this process with connections of its own to the JVM. A driver that is killed leaves the JVM behind, which finishes the
files that it was writing; a lake has to bear that, too. This process makes no commit: the library of the log works in
no fork of a process that has used it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from deltalake import DeltaTable
from pyspark.sql import SparkSession

import pipeline.archive
import pipeline.lake
from app.cli.failure import CommandFailed
from app.cli.pipeline.lake import told_failures
from pipeline.archive import ArchiveOptions, archive
from pipeline.compaction import compact, crowded
from pipeline.erasure import Subject, erase
from pipeline.kafka_options import SparkKafkaOptions
from pipeline.lake import Table, bronze
from pipeline.retention import retain
from pipeline.s3 import S3Options
from pipeline.session import SessionOptions, spark_session
from pipeline.storage import LakeStorage

FILE_BYTES = 64 << 20
Act = Callable[[], object]


def at_point(point: str, occurrence: int, act: Act) -> None:
    """Let ``act`` happen at a point of the batch that has this number, counted from 1."""
    seen = 0

    def counted() -> None:
        nonlocal seen
        seen += 1
        if seen == occurrence:
            act()

    writing: list[tuple[type, str]] = [(Table, "write"), (Table, "write_whole")]
    # A commit is made by deltalake, or behind our own last commit as a file of the log.
    committing: list[tuple[type, str]] = [(DeltaTable, "create_write_transaction"), (LakeStorage, "add")]
    points: dict[str, tuple[list[tuple[type, str]], bool]] = {
        "planned": (writing, True),
        "written": ([(LakeStorage, "make_durable")], True),
        "durable": (writing, False),
        "committing": (committing, True),
        "committed": (committing, False),
        "noted": ([(Table, "commit")], False),
    }
    places, is_before = points[point]
    for place, name in places:
        wrap(place, name, counted, is_before=is_before)


def wrap(place: type, name: str, act: Act, *, is_before: bool) -> None:
    """Let ``act`` happen before or after each call of a method."""
    whole = getattr(place, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if is_before:
            act()
        result = whole(*arguments, **named)
        if not is_before:
            act()
        return result

    setattr(place, name, wrapped)


def act_of(spark: SparkSession, order: dict[str, Any]) -> Act:
    """Return what happens at the point: a meeting of two drivers, another tool's commit, a full disk, or death."""
    if order["pipe"] is not None:
        return lambda: meet(order["pipe"])
    if "sql" in order:
        return lambda: spark.sql(order["sql"]).collect()
    return (lambda: fill(Path(order["fill"]))) if "fill" in order else die


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill(disk: Path) -> None:
    """Leave no room on this disk."""
    filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(filler, bytes(1 << 16))
    os.close(filler)


def driver(spark: SparkSession, order: dict[str, Any], result: int) -> NoReturn:
    """Archive in this fork, and write the number of rows or the sentence of a refusal to ``result``."""
    spark.sparkContext._gateway._gateway_client.deque.clear()  # the connections are the parent's
    if "seconds" in order:
        threading.Timer(order["seconds"], die).start()
    elif order["point"] != "":
        at_point(order["point"], order["occurrence"], act_of(spark, order))
    if "clock" in order:
        set_clock(datetime.fromisoformat(order["clock"]))
    try:
        with told_failures():
            done: int | str | list[int] = worked(spark, order)
    except CommandFailed as refused:
        done = str(refused)
    os.write(result, json.dumps(done).encode())
    os._exit(0)


def worked(spark: SparkSession, order: dict[str, Any]) -> int | list[int]:
    """Do the job of the order; return what it counts, or the event numbers that our own reader sees."""
    lake = LakeStorage(order["lake"], S3Options(**order["s3"]))
    table, last = bronze(lake), date(2026, 1, 16)
    match order["job"]:
        case "compact":
            return compact(spark, table, crowded(table.snapshot(), last, FILE_BYTES), "run", FILE_BYTES)
        case "erase":
            return erase(spark, lake, table, Subject((order["key"],)), "run").records
        case "retain":
            return sum(file.rows for file in retain(lake, table, last, "run"))
        case "read":
            return sorted(row.event_number for row in table.read(spark).select("event_number").collect())
    options = ArchiveOptions((order["topic"],), batch_records_max=order["batch"], accept_loss=order["accept_loss"])
    return archive(lambda: spark, table, SparkKafkaOptions(order["kafka"]), options, "run").rows


def sql(spark: SparkSession, order: dict[str, Any]) -> str:
    """Let Delta's package for Spark work on bronze."""
    spark.sql(order["sql"]).collect()
    return "done"


def set_clock(now: datetime) -> None:
    """Let the archive and the log take this for the present."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return now.astimezone(tz)

    setattr(pipeline.archive, "datetime", Clock)  # noqa: B010 - it is imported there
    setattr(pipeline.lake, "time", SimpleNamespace(time=now.timestamp))  # noqa: B010


def meet(pipe: tuple[int, int]) -> None:
    """Say that this driver is there, and wait until it may go on."""
    there, go = pipe
    os.write(there, b"1")
    os.read(go, 1)


def forked(spark: SparkSession, order: dict[str, Any]) -> tuple[int, int]:
    """Start a driver; its process and where its result is read."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        driver(spark, order, writing)
    os.close(writing)
    return child, reading


def outcome(child: int, reading: int) -> Any:
    """Return what the driver wrote, or None when it was killed."""
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else json.loads(text)


def run(spark: SparkSession, order: dict[str, Any]) -> Any:
    """Archive by one driver; its outcome."""
    return outcome(*forked(spark, {"pipe": None, **order}))


def race(spark: SparkSession, order: dict[str, Any]) -> list[Any]:
    """Archive by two drivers, both of which have written their files before one commits; their outcomes."""
    there, go = os.pipe(), os.pipe()
    met = {**order, "point": "durable", "occurrence": 1, "pipe": (there[1], go[0])}
    drivers = [forked(spark, met) for _ in range(2)]
    for _ in drivers:
        os.read(there[0], 1)
    os.write(go[1], b"11")
    return [outcome(*each) for each in drivers]


def read(spark: SparkSession, order: dict[str, Any]) -> list[int]:
    """Return the event numbers of bronze as Delta's own package for Spark sees them."""
    spark.catalog.clearCache()
    rows = spark.read.format("delta").load(f"{order['lake']}/bronze").select("event_number").collect()
    return sorted(row.event_number for row in rows)


def main() -> None:
    """Serve until standard input ends."""
    os.environ["PYSPARK_PIN_THREAD"] = "false"  # a fork can drop the connections of this mode
    more = json.loads(sys.argv[1])
    spark = spark_session(SessionOptions("archiver", master="local[2]", more=more))
    spark.range(1).collect()
    say({"ready": str(Path(more["spark.jars"].split(",")[0]).name)})
    for line in sys.stdin:
        order = json.loads(line)
        say({"run": run, "race": race, "read": read, "sql": sql}[order["do"]](spark, order))
    spark.stop()


def say(answer: object) -> None:
    """Write one line, at once."""
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
