"""What a killed process holds is due at once for the next one of its data folder."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.bridges import claim_record
from app.bridges.take_over import TakeOver, installation_of
from app.chaos.child import Child
from app.chaos.client import ChaosClient
from app.settings.settings import Settings
from app.wiring import open_hub
from db.pool import Database, PoolOptions, Row
from tests.app.bridges.test_claim_record import leave_behind, mounted
from tests.app.conftest import opened
from tests.hostile.server import hostile_server
from tests.webhooks.harness import delivery_harness
from tests.webhooks.test_worker_claims import Held, arrived


class Asked(Database):
    """A database of this URL that notes which fences it is asked for."""

    def __init__(self, url: str) -> None:
        self.options = PoolOptions(url)
        self.fences: list[object] = []

    @override
    async def fetch(self, statement: str, *arguments: Any) -> list[Row]:
        """Note them, and hold none."""
        self.fences += arguments
        return []


async def test_a_copy_of_the_database_takes_nothing_over(tmp_path: Path) -> None:
    """TO-02: both count fences from the same number, and the copy would take its own living claims."""
    original, copy = Asked("postgresql://h@127.0.0.1/hookwire"), Asked("postgresql://h@127.0.0.1/staging")
    leave_behind(tmp_path, 7, installation=installation_of("aaaaaaaa", original.options.url))
    for database in (copy, original):
        await TakeOver(database, tmp_path, "aaaaaaaa", lambda _: None).once()
    assert (copy.fences, original.fences) == ([], [[7]])


@pytest.mark.parametrize("is_hard", [True, False], ids=["hard", "soft"])
async def test_the_record_outlives_a_hard_stop_and_no_soft_one(is_hard: bool, tmp_path: Path) -> None:
    """After a soft stop no claims are left. After a hard one they are, and the process has yet to end."""
    take_over = TakeOver(Asked("postgresql://h@127.0.0.1/hookwire"), tmp_path, "aaaaaaaa", lambda _: None)
    running = asyncio.create_task(take_over.run())
    await asyncio.sleep(0)
    if is_hard:
        running.cancel()
    else:
        take_over.stop()
    await asyncio.wait({running})
    assert len(list(tmp_path.iterdir())) == is_hard


async def test_a_file_system_of_a_network_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a server that hangs would stop the process, also where the database is elsewhere."""
    database, claims = Asked("postgresql://h@127.0.0.1/hookwire"), tmp_path / "claims"
    leave_behind(claims, 7, installation=installation_of("aaaaaaaa", database.options.url))
    monkeypatch.setattr(claim_record, "_MOUNTS", mounted(tmp_path, "nfs4"))
    take_over = TakeOver(database, claims, "aaaaaaaa", lambda _: None)
    running = asyncio.create_task(take_over.run())
    await asyncio.sleep(0)
    take_over.stop()
    await asyncio.wait({running})
    assert database.fences == []


@pytest.mark.parametrize("fences", [[], [3]], ids=["refused", "at work"])
async def test_a_hub_that_was_built_and_not_run_leaves_a_record_only_of_claims(
    fences: list[int], database_url: str, tmp_path: Path
) -> None:
    """A start that is refused again and again would otherwise fill the folder."""
    settings = Settings(listen="127.0.0.1:0", data_dir=tmp_path, database_url=database_url, log_level="error")
    async with open_hub(settings, ["deliver"]) as assembly:
        [take_over] = [service for phase in assembly.phases for service in phase if isinstance(service, TakeOver)]
        take_over.note(fences)
    assert len(list((tmp_path / "claims").iterdir())) == len(fences)


def test_a_full_disk_costs_the_record_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F14: publishing and attempts go on; the database may have a disk of its own."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    take_over = TakeOver(Asked("postgresql://h@127.0.0.1/hookwire"), tmp_path, "aaaaaaaa", lambda _: None)
    monkeypatch.setattr(os, "pwrite", full)
    with capture_logs() as logged:
        for fence in (3, 5):
            take_over.note([fence])
    assert [(line["event"], line["error"]) for line in logged] == [
        ("no_claim_record", "[Errno 28] No space left on device")
    ]
    assert list(tmp_path.iterdir()) == []


async def test_a_record_that_cannot_be_removed_does_not_fail_a_soft_stop(tmp_path: Path) -> None:
    """F14: a disk that is read-only after an error refuses it. Here a folder has the name of the file."""
    take_over = TakeOver(Asked("postgresql://h@127.0.0.1/hookwire"), tmp_path, "aaaaaaaa", lambda _: None)
    [path] = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    take_over.stop()
    with capture_logs() as logged:
        await take_over.run()
    assert [line["event"] for line in logged] == ["claim_record_not_removed"]


async def test_unordered_claims_are_due_with_a_new_fence_and_a_lane_keeps_its_lease(
    database_url: str, tmp_path: Path
) -> None:
    """TO-02, TO-03: a settlement by the dead worker, which is still on its way, would find another fence."""
    due: list[int] = []
    async with delivery_harness(database_url) as harness, hostile_server(Held()) as server:
        free = await harness.subscribe(server.url())
        lane = await harness.subscribe(server.url(), ordered=True)
        await harness.deliver(b"{}", key="k")
        async with harness.working(die=True):
            await arrived(server, 2)
        fences = [row["fence"] for row in await harness.sql.fetch("SELECT fence FROM hookwire.deliveries")]
        leave_behind(tmp_path, *fences, installation=installation_of("aaaaaaaa", harness.database.options.url))

        await TakeOver(harness.database, tmp_path, "aaaaaaaa", due.extend).once()

        rows = await harness.sql.fetch(
            "SELECT subscription_id, due_at <= now(), fence = ANY ($1), attempts FROM hookwire.deliveries ORDER BY 1",
            fences,
        )
    assert due == [free]
    assert [tuple(row) for row in rows] == [(free, True, False, 1), (lane, False, True, 1)]


async def test_a_delivery_that_was_tried_before_keeps_its_lease(database_url: str, tmp_path: Path) -> None:
    """TO-02: one that kills its worker would else kill each next one at once, and use up the attempts of all beside it.
    The attempts before a dead letter was sent again do not count.
    """
    due: list[int] = []
    async with delivery_harness(database_url) as harness:
        first, second, again = [await harness.subscribe("http://127.0.0.1:9/") for _ in range(3)]
        await harness.deliver(b"{}")
        for subscription, attempts, free in ((second, 1, 0), (again, 9, 9)):
            await harness.sql.execute(
                "UPDATE hookwire.deliveries SET attempts = $2, free_attempts = $3 WHERE subscription_id = $1",
                subscription, attempts, free,
            )  # fmt: skip
        claim = ([first, second, again], [1, 1, 1], 600.0, 0.0, None)
        fences = {row["fence"] for row in await harness.database.fetch("delivery.claim", *claim)}
        leave_behind(tmp_path, *fences, installation=installation_of("aaaaaaaa", harness.database.options.url))

        await TakeOver(harness.database, tmp_path, "aaaaaaaa", due.extend).once()

        kept = await harness.sql.fetch("SELECT subscription_id, attempts FROM hookwire.deliveries WHERE due_at > now()")
    assert (sorted(due), [tuple(row) for row in kept]) == ([first, again], [(second, 2)])


async def test_a_restarted_hub_sends_at_once_what_the_killed_one_held(database_url: str, tmp_path: Path) -> None:
    """TO-02: the lease is made longer than this test, so only the record of the killed process frees the claim."""
    child = Child("hub", tmp_path, {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path)})
    async with hostile_server(Held()) as server, opened(database_url) as (_, sql):
        await child.start()
        client = ChaosClient(child.port, 60)
        try:
            body = f'{{"topic": "a", "callback": "{server.url()}"}}'.encode()
            made = await client.request("POST", "/subscriptions", body, {"Content-Type": "application/json"})
            stored = await client.request("POST", "/topics/a/events", b"1")
            await arrived(server, 1)
            os.kill(child.pid, signal.SIGKILL)
            await child.ended(60)
            await sql.execute("UPDATE hookwire.deliveries SET due_at = now() + interval '1 hour'")
            await child.start()
            await arrived(server, 2)
        finally:
            client.close()
            await child.end()
    assert (made.status, stored.status) == (201, 202)
