"""From an empty folder to a lake and an audit that can be believed.

It starts Apache Kafka (or takes the one that the environment names) and `hookwire serve` with an embedded database.
Then it shows six things:

    1. events are published; the relay carries them to Kafka, and to a webhook that refuses one in twenty at first
    2. `hookwire pipeline archive` makes a lake of them, and finds nothing new the second time
    3. `hookwire pipeline audit` finds the lake whole, and every delivery accounted for
    4. attempts become tables of deliveries, metrics and service levels; the report is written
    5. behind the audit's back one event is deleted from the lake, one doubled, one moved before its neighbour
    6. the audit names all three, and nothing else

Everything that it starts ends with it; the report stays, and `--lake FOLDER` keeps the lake. Exit codes: 0 all seen, 1
a step failed, 2 wrong use, 4 not finished: something is still on its way.
"""

import argparse
import asyncio
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from aiohttp import web

from app.cli.database import database_url
from app.maintenance.ledger import Ledger
from app.settings.settings import load_settings
from db.pool import PoolOptions, open_database
from pipeline.delta.snapshot import Change, DataFile
from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from runtime.port import free_port
from scripts.demo_stage import DemoFailed, DemoUnfinished, running_hub, serving
from scripts.servers.fleet import take_server
from scripts.servers.missing import MissingServerError
from scripts.servers.process import ServerFailedError
from scripts.servers.warden import WARDEN

KEYS = [f"customer-{number}" for number in range(10)]
PER_KEY = 30
WAIT_SECONDS = 120.0
COMMAND_SECONDS = 400.0
_IS_FOLDED = """
SELECT c.through_id >= e.last_value AND NOT EXISTS (SELECT FROM hookwire.ledger_entries)
FROM hookwire.ledger_cursor c, hookwire.event_id e
"""
_THREE_HOURS_LATER = """
UPDATE hookwire.ledger_cursor
SET since_at = since_at - interval '3 hours', through_at = through_at + interval '3 hours'
"""


def say(text: str = "") -> None:
    """Print one line, at once."""
    print(text, flush=True)


@asynccontextmanager
async def webhook() -> AsyncIterator[str]:
    """Serve a callback that answers one in twenty of its first tries with 503; yield its URL."""
    seen: set[str] = set()

    async def receive(request: web.Request) -> web.Response:
        event_id = request.headers["webhook-id"]
        is_busy = int(event_id.rpartition("_")[2]) % 20 == 0 and event_id not in seen
        seen.add(event_id)
        return web.Response(status=503 if is_busy else 204)

    async with serving(receive) as url:
        yield url


async def published(url: str, callback: str) -> list[str]:
    """Events of ten keys, and their ids; returns when all of them are in Kafka and at the callback."""
    ids: list[str] = []
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as hub:
        subscription = {"topic": "shop.orders", "callback": callback, "retry_schedule_seconds": [1, 5]}
        answer = await hub.post("/subscriptions", json=subscription)
        if answer.status_code != 201:
            raise DemoFailed(f"subscribing was answered with {answer.status_code}: {answer.text}")
        for key in KEYS:
            lines = "\n".join(json.dumps({"customer": key, "order": n}) for n in range(PER_KEY))
            answer = await hub.post(
                "/topics/shop.orders/events", content=lines,
                headers={"Content-Type": "application/x-ndjson", "Hookwire-Key": key},
            )  # fmt: skip
            if answer.status_code != 202:
                raise DemoFailed(f"publishing was answered with {answer.status_code}: {answer.text}")
            ids += [event["id"] for event in answer.json()]
        for event_id in ids:
            await _carried(hub, event_id)
    return ids


async def _carried(hub: httpx.AsyncClient, event_id: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        event = (await hub.get(f"/events/{event_id}")).json()
        is_sent = [sink["state"] for sink in event["sinks"] if sink["sink"] == "kafka"] == ["sent"]
        if is_sent and [one["state"] for one in event["deliveries"]] == ["delivered"]:
            return
        if time.monotonic() > deadline:
            raise DemoUnfinished(f"the hub says of {event_id}: {event['summary']}")
        await asyncio.sleep(0.05)


async def pipeline(settings: Mapping[str, str], *words: str) -> tuple[int, Any]:
    """Run `hookwire pipeline ... --json`; return its exit code and its output."""
    say(f"   $ hookwire pipeline {' '.join(words)}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    child = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("hookwire"), "pipeline", *words, "--json", stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=kept | dict(settings),
    )  # fmt: skip
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            output, errors = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    if not output:
        raise DemoFailed(f"it ended with {child.returncode}: {errors.decode()[-1000:]}")
    return child.returncode or 0, json.loads(output)


async def close_the_hour(settings: Mapping[str, str]) -> None:
    """Fold the ledger, and let it be three hours later: only closed hours are judged."""
    async with database_url(load_settings({}, defaults={"data_dir": Path(settings["HOOKWIRE_DATA_DIR"])})) as url:
        pool = await open_database(PoolOptions(url, connections_min=1, connections_max=2))
        connection = await asyncpg.connect(url)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not await connection.fetchval(_IS_FOLDED):
                    await Ledger(pool).fold()
                    await asyncio.sleep(0.05)
            await connection.execute(_THREE_HOURS_LATER)
        finally:
            await connection.close()
            await pool.aclose()


def tampered(lake: Path) -> dict[str, list[str]]:
    """Change the lake without its commands; return the events by which each fault must be found."""
    table = bronze(LakeStorage(str(lake)))
    basis = table.snapshot()
    rows = pa.concat_tables(pq.ParquetFile(lake / "bronze" / file.path).read() for file in basis.files)
    events, offsets = rows["event_id"].to_pylist(), rows["offset"].to_pylist()
    lost, twice, *_ = (_places(rows, key)[5] for key in KEYS[:2])
    earlier, later = _places(rows, KEYS[2])[5:7]
    offsets[earlier], offsets[later] = offsets[later], offsets[earlier]
    column = rows.schema.get_field_index("offset")
    rows = rows.set_column(column, rows.schema.field(column), pa.array(offsets, pa.int64()))
    copy = rows.slice(twice, 1)
    copy = copy.set_column(column, rows.schema.field(column), pa.array([max(offsets) + 1], pa.int64()))
    kept = rows.filter(pc.not_equal(rows["event_id"], events[lost]))
    path = basis.files[0].path.rpartition("/")[0] + "/tampered.parquet"
    pq.write_table(pa.concat_tables([kept, copy]), lake / "bronze" / path)
    added = DataFile(path, kept.num_rows + 1, (lake / "bronze" / path).stat().st_size)
    table.commit(basis, Change("nobody", "nobody", (added,), tuple(file.path for file in basis.files)))
    # Offsets are under the seals of the rows.
    altered = sorted((events[twice], events[earlier], events[later]))
    return {"lost": [events[lost]], "duplicated": [events[twice]], "altered": altered}


def _places(rows: pa.Table, key: str) -> list[int]:
    """Return where the records of a key are, in their order."""
    keys, offsets = rows["key"].to_pylist(), rows["offset"].to_pylist()
    return sorted((n for n, found in enumerate(keys) if found == key.encode()), key=offsets.__getitem__)


async def reported(settings: Mapping[str, str], audit: Any, file: Path) -> None:
    """Attempts as silver and gold, and the report about all of it."""
    days = ("--since", "1d", "--until", "0s")
    copied, measured, levels = [await pipeline(settings, job, *days) for job in ("deliveries", "metrics", "slo")]
    rows = measured[1]["rows_in_database"], levels[1]["rows_in_database"]
    say(f"   {copied[1]['rows']} attempts in the lake; {sum(rows)} rows of metrics and service levels in PostgreSQL")
    found = Path(settings["HOOKWIRE_DATA_DIR"]).with_name("audit.json")
    found.write_text(json.dumps(audit), encoding="utf-8")
    code, _ = await pipeline(settings, "report", *days, "--audit", str(found), "--output", str(file))
    _expect((copied[0], measured[0], 0 in rows, code), (0, 0, False, 0))
    say(f"   {file}: open it in a browser")


async def demo(folder: Path, lake: Path, report: Path) -> None:
    """Run the six steps; raise DemoFailed."""
    kafka = take_server("kafka", folder, os.environ)
    say(f"   Apache Kafka {kafka.version} at {kafka.address}")
    settings = {
        "HOOKWIRE_DATA_DIR": str(folder / "data"), "HOOKWIRE_LISTEN": f"127.0.0.1:{free_port()}",
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.address, "HOOKWIRE_PIPELINE_LAKE": str(lake),
        "HOOKWIRE_KAFKA_TOPIC_PREFIX": f"demo-{secrets.token_hex(3)}-", "HOOKWIRE_EGRESS_ALLOW_CIDRS": "127.0.0.0/8",
    }  # fmt: skip
    try:
        say("\n1. Publish")
        async with webhook() as callback, running_hub(folder, settings) as (url, _):
            ids = await published(url, callback)
        say(f"   {len(ids)} events of {len(KEYS)} keys were accepted, are in Kafka, and were delivered")
        say("\n2. Archive")
        first = await pipeline(settings, "archive")
        again = await pipeline(settings, "archive")
        say(f"   {first[1]['rows']} records, then {again[1]['rows']}; in {lake}")
        _expect((first[0], first[1]["rows"], again[1]["rows"]), (0, len(ids), 0))
        say("\n3. Audit")
        await close_the_hour(settings)
        audit = await _audited(settings, {})
        say("\n4. Report")
        await reported(settings, audit, report)
        say("\n5. Behind its back: one event deleted, one doubled, one moved")
        planted = tampered(lake)
        for fault, event_ids in planted.items():
            say(f"   {' '.join(event_ids)} shall be {fault}")
        say("\n6. Audit")
        await _audited(settings, planted)
    finally:
        kafka.discard()


async def _audited(settings: Mapping[str, str], planted: Mapping[str, Sequence[str]]) -> Any:
    """Check that the audit finds these and nothing else; return its report."""
    code, report = await pipeline(settings, "audit")
    found: dict[str, Sequence[str]] = {finding["fault"]: finding["examples"] for finding in report["findings"]}
    for fault, examples in found.items():
        say(f"   {fault:<11} {' '.join(examples)}")
    cells, count = report["cells"], report["count"]
    say(f"   {report['records']} records in {cells} cells: {count} findings, exit code {code}")
    _expect((code, found), (1 if planted else 0, {fault: [*event_ids] for fault, event_ids in planted.items()}))
    return report


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise DemoFailed(f"expected {wanted}, and found {found}")


def main() -> int:
    """Parse, run, clean up; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="make pipeline-demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lake", type=Path, help="keep the lake in this folder, which must be empty")
    parser.add_argument("--report", type=Path, default=Path("hookwire-report.html"), help="write the report here")
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hookwire-lake-"))
    folder.chmod(0o711)  # under root the database's account passes through
    WARDEN.remove(folder)
    started = time.monotonic()
    try:
        asyncio.run(demo(folder, (wanted.lake or folder / "lake").absolute(), wanted.report.absolute()))
    except (DemoFailed, MissingServerError, ServerFailedError, TimeoutError) as error:
        print(f"\nNot as it should be: {error or type(error).__name__}", file=sys.stderr)
        return 1
    except DemoUnfinished as error:
        print(f"\nNot finished: {error}", file=sys.stderr)
        return 4
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"\nAll seen, in {time.monotonic() - started:.0f} s. Open the report in a browser: {wanted.report.absolute()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
