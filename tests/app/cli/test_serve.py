"""``hookwire serve`` as a subprocess: its refusals, what it prints, and a database that is not there yet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app.cli.test_main import hookwire, started
from tests.app.conftest import WAIT_SECONDS, RunHub
from tests.faults.proxy import Proxy


async def test_serve_refuses_a_role_that_does_not_exist() -> None:
    finished = await hookwire("serve", "--role", "cook")

    assert (finished.code, "api, relay, deliver, source, not cook" in finished.stderr) == (2, True)


async def test_serve_says_who_has_its_address(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        address = hub.url.removeprefix("http://")
        finished = await hookwire("serve", LISTEN=address, DATABASE_URL=hub.database_url)

        assert (finished.code, f"cannot listen on {address}" in finished.stderr) == (2, True)


@pytest.mark.parametrize(("profile", "pages"), [("development", ["status", "docs"]), ("production", ["status"])])
async def test_serve_names_the_pages_that_it_serves(
    database_url: str, tmp_path: Path, profile: str, pages: list[str]
) -> None:
    """The page /docs is off in production, unless HOOKWIRE_DOCS says otherwise: its address would lead nowhere."""
    given = {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "PROFILE": profile, "ACCESS": "proxy"}
    async with started("serve", LISTEN="127.0.0.1:0", **given) as process, asyncio.timeout(WAIT_SECONDS):
        assert process.stderr is not None
        said: list[str] = []
        async for line in process.stderr:
            said += line.decode().split()[:1]
            if said[-1:] == ["sinks"]:
                break
        process.terminate()
        await process.communicate()
    assert [word for word in said if word in ("status", "docs")] == pages


async def test_serve_without_its_database_exits_with_3_if_told_not_to_wait(free_port: int) -> None:
    url = f"postgresql://u:canary@127.0.0.1:{free_port}/x"
    finished = await hookwire("serve", LISTEN="127.0.0.1:0", DATABASE_URL=url, DATABASE_WAIT_SECONDS="0")

    assert (finished.code, "HOOKWIRE_DATABASE_URL" in finished.stderr, "canary" in finished.stderr) == (3, True, False)


async def test_serve_does_not_wait_for_a_database_that_refuses_it(database_url: str) -> None:
    """GS-08: nothing but another setting will help."""
    finished = await hookwire("serve", LISTEN="127.0.0.1:0", DATABASE_URL=f"{database_url}_missing")

    assert (finished.code, "does not exist" in finished.stderr) == (3, True)


async def test_serve_waits_for_its_database(database_url: str, tmp_path: Path, free_port: int) -> None:
    """GS-08: `serve` ended with 3 when the database was down at the start, and stayed down."""
    at = urlsplit(database_url)
    url = at._replace(netloc=f"{at.netloc.rpartition('@')[0]}@127.0.0.1:{free_port}").geturl()
    given = {"DATABASE_URL": url, "DATA_DIR": str(tmp_path), "LISTEN": "127.0.0.1:0"}
    async with started("serve", **given) as process, asyncio.timeout(WAIT_SECONDS):
        assert process.stderr is not None
        waiting = await process.stderr.readline()
        way = Proxy((at.hostname or "", at.port or 0), free_port)
        await way.listen()
        runs = False
        async for line in process.stderr:
            runs = b"hookwire runs" in line
            if runs:
                break
        process.kill()
        await process.communicate()
        await way.refuse()
    assert (b"waiting_for_database" in waiting, runs) == (True, True)
