"""The report of a real lake: its numbers are those of another engine over the same files, and it fits each screen."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from typer.testing import CliRunner

from app.cli.main import application
from pipeline.audit.selftest import SelftestRecord, bronze_of
from pipeline.delta.snapshot import Change
from pipeline.lake import bronze
from pipeline.report.figures import Endpoint
from pipeline.report.markup import duration
from pipeline.report.page import page
from pipeline.report.queries import QUERIES
from pipeline.runs import recorded_run
from pipeline.service import Service
from pipeline.storage import LakeStorage
from scripts.small_png import small_png
from tests.hostile.chromium import Tab, operated
from tests.pipeline.test_report import AUDIT, HOURS, ROWS, cells, figures
from tests.pipeline.test_tampering import executed

DAYS, EVENTS = 10, 40
FIRST = datetime.now(UTC).date() - timedelta(days=DAYS)
PICTURE_HEIGHT = {1280: 1450, 390: 1800}
SUBSCRIBED = """
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, name)
SELECT id, 'webhook', 'orders', 'https://user:p@ss@' || host || ':8443/in?token=secret', 'active', name
FROM (VALUES ('sub_fast', 'Hooks.Example.com', NULL), ('sub_slow', 'billing.example', 'Billing'),
             ('sub_gone', 'old.example', NULL)) AS s(id, host, name)
"""
BROKEN_TIMES = '() => [...document.querySelectorAll("time")].filter(one => one.getClientRects().length > 1).length'
ANSWERS = ("latency", "lateness", "reasons", "failing")


def attempt(event: int, subscription: str, at: datetime, after: float, **more: Any) -> list[Any]:
    """A row of ``ATTEMPT``: an attempt that began so many seconds after the acceptance of the event."""
    row = {
        "tenant": "default", "event_id": event, "topic": "orders", "accepted_at": at, "subscription": subscription,
        "protocol": "webhook", "number": 1, "trigger": "first", "started_at": at + timedelta(seconds=after),
        "connect_seconds": None, "first_byte_seconds": None, "seconds": 0.05, "status": 204, "outcome": "delivered",
        "decision": "delivered",
    }  # fmt: skip
    return list((row | more).values())


def attempts_of(day: int) -> list[list[Any]]:
    """One endpoint that is quick, one that needs retries and is late once, and one whose address is gone."""
    rows = []
    for n in range(EVENTS):
        event = day * EVENTS + n + 1
        at = datetime.combine(FIRST, datetime.min.time(), UTC) + timedelta(days=day, minutes=30 * n)
        rows.append(attempt(event, "sub_fast", at, 0.01 * (1 + event % 7), seconds=0.02 + event % 11 / 100))
        wait = 4000.0 if event % 90 == 0 else 20.0 + event % 13
        if event % 5 == 0:
            rows.append(attempt(event, "sub_slow", at, 0.2, status=503, outcome="server_error", decision="retry"))
        rows.append(attempt(event, "sub_slow", at, wait if event % 5 == 0 else 0.3, number=1 + (event % 5 == 0),
                            trigger="retry" if event % 5 == 0 else "first", seconds=0.4))  # fmt: skip
        if event % 8 == 0:
            rows.append(attempt(event, "sub_gone", at, 0.1, status=404, outcome="client_error", decision="dead"))
            rows.append(attempt(event, "sub_fast", at, 600.0, number=2, trigger="replay"))
        if event % 10 == 0:
            rows.append(attempt(event, "sub_slow", at, 0.1, number=3, status=None, outcome="timeout", decision="retry"))
    return rows


def plant(spark: SparkSession, lake: LakeStorage, days: int, more: Sequence[list[Any]] = ()) -> None:
    """Bronze and silver of this many days, as the archive and `hookwire pipeline deliveries` make them."""
    records = [SelftestRecord(n, f"key {n % 4}", b"{}", n) for n in range(1, days * EVENTS + 1)]
    frame = bronze_of(spark, records).withColumns(
        {
            "topic": F.expr("CASE WHEN event_number % 3 = 0 THEN 'carts' ELSE 'orders' END"),
            "accepted_at": F.expr(
                f"TIMESTAMP'{FIRST} 00:00:00' + make_dt_interval(cast((event_number - 1) DIV {EVENTS} AS int), 0, "
                f"cast(30 * ((event_number - 1) % {EVENTS}) AS int))"
            ),
        }
    )
    seconds = "cast(event_number % 9 / 10 AS decimal(18, 6))"
    delayed = frame.withColumns(
        {
            "timestamp": F.expr(f"accepted_at + make_dt_interval(0, 0, 0, {seconds})"),
            "timestamp_type": F.expr("CASE topic WHEN 'carts' THEN 1 ELSE 0 END"),
            "archived_at": F.expr("accepted_at + make_dt_interval(0, 0, cast(event_number % 7 AS int))"),
        }
    )
    table = bronze(lake)
    dated = delayed.withColumn("dt", F.to_date("accepted_at"))
    table.commit(table.snapshot(), Change("archive", "run", table.write(dated.coalesce(1), 1)))
    with recorded_run(lake, "deliveries", {}) as run:
        service = Service(spark, lake, run.id)
        files = service.write_attempts([*more, *(row for day in range(days) for row in attempts_of(day))])
        for day in {file.day for file in files}:
            service.put_attempts(day, tuple(file for file in files if file.day == day))


def quick(endpoints: int) -> list[list[Any]]:
    """An attempt at each of so many endpoints that are quicker than the others."""
    at = datetime.combine(FIRST, datetime.min.time(), UTC)
    return [attempt(n + 1, f"sub_quick_{n}", at, 0.001 * n, seconds=0.001) for n in range(endpoints)]


def plant_strangers(spark: SparkSession, lake: LakeStorage, topics: int) -> None:
    """Records that no relay sent, of topics of their own: of the years 9998 and 1999, and one of today."""
    record = bronze_of(spark, [SelftestRecord(n, None, b"{}", n) for n in range(topics + 1)])
    years = "CASE event_number % 2 WHEN 0 THEN TIMESTAMP'9998-01-01' ELSE TIMESTAMP'1999-01-01' END"
    day = f"date_add(DATE'{FIRST}', CASE event_number WHEN {topics} THEN {DAYS} ELSE 0 END)"
    frame = record.withColumns(
        {
            "topic": F.expr(f"'stranger.' || event_number % {topics}"), "accepted_at": F.expr(years),
            "quarantine": F.array(F.lit("future")), "dt": F.expr(day),
        }
    ).withColumn("archived_at", F.expr("CAST(dt AS timestamp)"))  # fmt: skip
    table = bronze(lake)
    basis = table.snapshot()
    table.commit(basis, Change("archive", "run", table.write(frame.coalesce(1), basis.version + 1)))


def reported(lake: LakeStorage, folder: Path, *words: str) -> tuple[Any, str]:
    """What `hookwire pipeline report` prints as JSON, and the page."""
    target = folder / "report.html"
    days = ["--since", f"{FIRST - timedelta(days=9)}", "--until", f"{FIRST + timedelta(days=DAYS)}"]
    command = ["pipeline", "report", *days, "--lake", lake.uri, "--json", "--output", str(target)]
    done = CliRunner().invoke(application(), [*command, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), target.read_text()


def by_duckdb(lake: LakeStorage, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a query of the page as DuckDB finds them in the same files."""
    text = QUERIES[name]
    for parameter, value in parameters.items():
        text = re.sub(rf":{parameter}\b", f"'{value}'" if isinstance(value, str) else str(value), text)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute("CREATE MACRO unix_micros(moment) AS epoch_us(moment)")
        for table in ("bronze", "deliveries"):
            database.register(table, DeltaTable(lake.spark_path(table)).to_pyarrow_dataset())
        found = database.execute(text)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON has them, without the last digits of numbers."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value.isoformat() if isinstance(value, date) else round(value, 6) if isinstance(value, float) else value


def test_the_numbers_of_the_page_are_those_of_another_engine_over_the_same_files(
    spark: SparkSession, lake_uri: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-14: each query as it is printed; endpoints by name and host, never their capability; and GP-14's examples."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    asyncio.run(executed(database_url, SUBSCRIBED))
    lake = LakeStorage(lake_uri)
    plant(spark, lake, DAYS, quick(9))
    plant_strangers(spark, lake, 9)
    found, html = reported(lake, tmp_path)
    others = {name: by_duckdb(lake, name, found["parameters"]) for name in QUERIES}

    assert {name: plain(found[name]) for name in ANSWERS} == {name: plain(others[name]) for name in ANSWERS}
    sums = ("attempts", "good", "retries", "dead")
    assert [found[name] for name in ("attempts", "delivered", "retries", "dead")] == [
        sum(row[name] for row in others["attempts"]) for name in sums
    ]
    assert found["records"] == {
        "orders": 267, "carts": 133, "stranger.0": 2, **{f"stranger.{n}": 1 for n in range(1, 5)}, "4 others": 4,
    }  # fmt: skip
    assert sum(row["records"] for row in others["volume"]) == sum(found["records"].values())
    assert (found["parameters"]["grain"], {row["endpoints"] for row in others["latency"]}) == ("day", {11})
    assert found["newest"] == {
        name: others[f"newest_{name}"][0]["at"].astimezone(UTC).isoformat() for name in ("event", "attempt")
    }
    assert [(row["topic"], row["p95"], row["p95_to_kafka"], row["late"]) for row in found["lateness"]] == [
        ("carts", 360.0, 0.6, 0), ("orders", 360.0, None, None),
    ]  # fmt: skip
    shown = cells(html, "From acceptance to a 2xx answer")
    whole = {row["subscription"]: row for row in others["latency"] if row["subscription"] and row["day"] is None}
    assert shown[0:14:7] == ["Billing | billing.example · orders · sub_slow", "hooks.example.com | orders · sub_fast"]
    assert shown[3:14:7] == [duration(whole[one]["p95"]) for one in ("sub_slow", "sub_fast")]
    assert (len(whole), "1 faster endpoint is not shown" in html) == (10, True)
    assert (whole["sub_slow"]["late"], whole["sub_fast"]["events"]) == (4, 400)
    assert re.findall("secret|8443|user:|ss@", html) == []


async def looked_at(html: Path, folder: Path) -> dict[tuple[str, int], tuple[int, int, bytes]]:
    """The page in a dark and a light room, on a phone and on a desk.

    The width that it needs, the number of times of day that stand in two lines, and its picture.
    """
    seen = {}
    async with operated(folder) as browser:
        tab = await browser.tab()
        for scheme in ("light", "dark"):
            await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for width, height in PICTURE_HEIGHT.items():
                await tab.shaped(width)
                await tab.open(html.as_uri())
                needs = await tab.run("() => document.scrollingElement.scrollWidth")
                broken = await tab.run(BROKEN_TIMES)
                seen[scheme, width] = needs, broken, await pictured(tab, width, height)
    return seen


async def pictured(tab: Tab, width: int, height: int) -> bytes:
    """The upper part of the page, as PNG."""
    from base64 import b64decode

    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    answer = await tab.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    return b64decode(answer["data"])


def overflowing(seen: Mapping[tuple[str, int], tuple[int, int, bytes]]) -> dict[tuple[str, int], tuple[int, int]]:
    """The screens that the page does not fit, and those where a time stands in two lines."""
    return {place: (needs, broken) for place, (needs, broken, _) in seen.items() if needs > place[1] or broken}


def test_names_without_a_space_fit_a_phone_and_a_desk(tmp_path: Path) -> None:
    """GP-14: a topic of 249 characters in a legend made the page 1,874 px wide; so did a file that the audit names."""
    topic = "orders." + "x" * 242
    volume = [{"topic": topic, "at": HOURS[0], "records": 40_000_000, "others": None}]
    rows = {"volume": volume, "lateness": [ROWS["lateness"][0] | {"topic": topic}]}
    endpoint = Endpoint(topic, f"{'a' * 60}.{'b' * 60}.example", topic)
    audit = {**AUDIT, "lake": [f"bronze: commit 17, DELETE by delta-rs, {topic}"]}
    html = tmp_path / "report.html"
    html.write_text(page(figures(rows, endpoints={"sub_a": endpoint}, audit=audit, lake=f"s3a://lakes/{topic}")))

    seen = asyncio.run(looked_at(html, tmp_path / "profile"))
    assert overflowing(seen) == {}
    assert len({picture for *_, picture in seen.values()}) == 4, "each room and each screen looks otherwise"


@pytest.mark.parametrize("days", [1, DAYS])
def test_the_page_fits_a_phone_and_a_desk_in_the_dark_and_in_the_light(
    days: int, spark: SparkSession, lake_uri: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-14: one day of data looks good, too. `make pictures` keeps those of ten days."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    asyncio.run(executed(database_url, SUBSCRIBED))
    lake = LakeStorage(lake_uri)
    plant(spark, lake, days)
    audit = json.dumps({**AUDIT, "lake_uri": lake.uri}, default=datetime.isoformat)
    (tmp_path / "audit.json").write_text(audit)
    reported(lake, tmp_path, "--audit", str(tmp_path / "audit.json"))
    seen = asyncio.run(looked_at(tmp_path / "report.html", tmp_path / "profile"))

    assert overflowing(seen) == {}
    assert len({picture for *_, picture in seen.values()}) == 4
    if (folder := os.environ.get("HOOKWIRE_TEST_PICTURES")) and days == DAYS:  # `make pictures`
        for (scheme, width), (*_, picture) in seen.items():
            Path(folder, f"report-{scheme}-{width}.png").write_bytes(small_png(picture))
