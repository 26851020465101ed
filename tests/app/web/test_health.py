"""/healthz, /readyz, /metrics, and what is answered while the database is away (EC-H02, T6)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient
from app.checks.database import database_checks
from app.cli.failure import explained
from app.verdict.current_verdict import CurrentVerdict
from app.web.api.operating.ready_answer import ready_answer
from app.web.overview import Overview
from app.web.readiness import Readiness
from db.direct import connect_direct
from db.errors import TooManyConnections
from db.pool import PoolOptions
from tests.app.conftest import ALL_ROLES, RunHub, opened
from tests.app.web.publishing.test_ingest import kind
from tests.waiting import until
from tests.webhooks.harness import Gated


async def test_a_hub_that_can_serve_is_ready(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES) as hub:
        leading = {name: {"state": "leading"} for name in ("webhooks", "jobs")}
        ready = await hub.until("/readyz", lambda answer: answer["sinks"] == leading and answer["verdict"] == "ok")

        assert ready == {"status": "ok", "database": "ok", "sinks": leading, "verdict": "ok"}
        assert (await hub.client.get("/healthz")).json() == {"status": "ok"}


async def test_before_it_stops_a_hub_is_not_ready_and_still_takes_events(database_url: str, tmp_path: Path) -> None:
    """GW-13: a balancer sends its requests elsewhere before the listener is closed."""
    settings = {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "STOP_DELAY_SECONDS": "30"}
    child = Child("hub", tmp_path, settings)
    await child.start()
    client = ChaosClient(child.port, 60)
    try:
        await until(lambda: _status(client, "/readyz", 200))
        os.kill(child.pid, signal.SIGTERM)
        await until(lambda: _status(client, "/readyz", 503))
        stored = await client.request("POST", "/topics/a/events", b"1")
        os.kill(child.pid, signal.SIGTERM)  # the second ends it without the delay
        ended = await child.ended(20)
    finally:
        client.close()
        await child.end()
    assert (stored.status, ended) == (202, 0)


async def test_a_stop_that_begins_while_the_database_is_asked_is_told() -> None:
    """GW-13: the questions may take seconds, and the balancer asks again only after its period."""

    class Asked:
        """A context whose process is stopped by the question to its database."""

        def __init__(self) -> None:
            self.stage: str | None = None
            self.readiness = self.verdict = self

        def relay_states(self) -> dict[str, tuple[str, str]]:
            return {}

        async def check(self) -> None:
            self.stage = "stopping"

        async def get_older(self) -> None:
            return None

    answer = await ready_answer(Asked())  # type: ignore[arg-type]  # what it reads of a context
    assert (answer.status_code, json.loads(answer.body)["status"]) == (503, "stopping")


async def _status(client: ChaosClient, path: str, status: int) -> bool:
    return (await client.request("GET", path)).status == status


async def test_metrics_count_what_was_relayed(running_hub: RunHub) -> None:
    async with running_hub(ALL_ROLES, direct_deliveries=False) as hub:
        accepted = (await hub.publish("a")).json()
        await hub.until(f"/events/{accepted['id']}", lambda event: event["sinks"][0]["state"] == "sent")
        wanted = (
            'hookwire_relay_acknowledged_total{group="0",sink="webhooks"} 1.0',
            'hookwire_outbox_led{sink="webhooks"} 1.0',
        )

        async def told() -> bool:
            text = (await hub.client.get("/metrics")).text
            return all(line in text for line in wanted)

        await until(told)
        answer = await hub.client.get("/metrics")

        assert answer.headers["content-type"].startswith("text/plain")
        assert ["hookwire_database_up 1.0" in answer.text, "hookwire_event_loop_lag_seconds_count" in answer.text] == [
            True, True,
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("role", "counter"),
    [("relay", "hookwire_relay_acknowledged_total"), ("deliver", "hookwire_delivery_attempts_total")],
)
async def test_a_process_without_the_api_tells_its_metrics_on_a_port_of_their_own(
    role: str, counter: str, database_url: str, tmp_path: Path, free_port: int
) -> None:
    """EC-H02: as `hookwire relay` and `hookwire deliver` run; nothing else is served there."""
    settings = {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "METRICS_LISTEN": f"127.0.0.1:{free_port}"}
    child = Child(role, tmp_path, settings, command=[role])
    child.port = free_port
    await child.start()
    client = ChaosClient(child.port, 30)
    await until(lambda: _status(client, "/readyz", 200))
    answers = [await client.request("GET", path) for path in ("/healthz", "/readyz", "/metrics", "/topics")]
    rebound = [
        (await client.request("GET", path, headers={"Host": "rebound.example"})).status
        for path in ("/healthz", "/metrics")
    ]
    client.close()
    ended = await child.drain(60)
    assert ([answer.status for answer in answers], counter.encode() in answers[2].body, ended[0]) == (
        [200, 200, 200, 404], True, 0,
    )  # fmt: skip
    assert rebound == [200, 421], "GS-08: a page under another host name reads no metrics"


async def test_without_its_database_the_hub_is_alive_not_ready_and_says_503(running_hub: RunHub) -> None:
    """What it knows stays readable: the status page tells where to look."""
    async with running_hub() as hub:
        name = hub.database_url.rpartition("/")[2]
        server = hub.database_url.removesuffix(name) + "postgres"
        import asyncpg

        operator = await asyncpg.connect(server)
        await operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)

        alive = await hub.client.get("/healthz")
        ready = await hub.client.get("/readyz")
        refused = [
            await hub.publish("a"),
            await hub.client.get("/subscriptions"),
            await hub.client.post("/subscriptions", json={"topic": "a", "callback": "http://127.0.0.1:9000/"}),
        ]
        page = await hub.client.get("/console")
        await operator.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await operator.close()
        again = await hub.publish("a")

        assert (alive.status_code, ready.status_code, ready.json()["database"]) == (200, 503, "unreachable")
        assert {kind(answer)[::2] for answer in refused} == {(503, "database-unavailable")}
        assert all("retry-after" in answer.headers for answer in refused)
        assert (page.status_code, "The database cannot be reached" in page.text, again.status_code) == (503, True, 202)


async def test_a_database_that_takes_too_long_is_slow_and_not_unreachable(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.web.outage._PROBE_SECONDS", 15.0)
    async with running_hub() as hub, opened(hub.database_url) as (_, other), other.transaction():
        await other.execute("LOCK TABLE hookwire.installation IN ACCESS EXCLUSIVE MODE")
        ready = await hub.client.get("/readyz")

        assert (ready.status_code, ready.json()) == (
            503, {"status": "unavailable", "database": "slow", "sinks": {}, "verdict": "trouble"},
        )  # fmt: skip


async def test_a_database_that_takes_no_more_connections_is_full_and_the_pool_s_setting_is_named(
    running_hub: RunHub, database_url: str
) -> None:
    """Its server runs and can be reached; what helps is a smaller pool, or room for a larger one."""
    role = f"full_{database_url.rpartition('_')[2]}"
    server = urlsplit(database_url)
    url = urlunsplit(server._replace(netloc=f"{role}@{server.hostname}:{server.port}"))
    async with opened(database_url) as (_, operator):
        await operator.execute(f"CREATE ROLE {role} LOGIN; GRANT {server.username} TO {role}")
        async with running_hub(database_url=url) as hub:
            await operator.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
            await operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", role)
            await hub.until("/readyz", lambda answer: answer["database"] == "full")  # not of a cut connection
            ready = await hub.client.get("/readyz")
            page = await hub.client.get("/console")
            refused = await hub.publish("a")
            checks = await database_checks(hub.settings, PoolOptions(url))
            with pytest.raises(TooManyConnections) as error:
                await connect_direct(PoolOptions(url))
            told = explained(error.value)
            await operator.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")
            again = await hub.publish("a")
        await operator.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")

    setting = "HOOKWIRE_DATABASE_CONNECTIONS_MAX"
    assert (ready.status_code, ready.json()["database"]) == (503, "full")
    assert (page.status_code, "takes no more connections" in page.text, setting in page.text) == (503, True, True)
    assert (kind(refused)[::2], again.status_code) == ((503, "database-unavailable"), 202)
    assert ([check.level for check in checks], setting in checks[0].sentence()) == (["unreachable"], True)
    assert (told and told.code, setting in str(told)) == (3, True)


async def test_a_database_that_is_read_only_is_a_503_for_whatever_would_be_stored(running_hub: RunHub) -> None:
    """FC-06: a failover, or a managed server that ran full. It heals by itself, and no answer quotes the server.

    HA-05: pages are read where writes run, so they are a 503, too.
    """
    async with running_hub(ALL_ROLES) as hub:
        await read_only(hub.database_url, "on")
        ready = await hub.until("/readyz", lambda answer: answer["database"] != "ok")
        refused = [
            await hub.publish("a"),
            await hub.publish("a", Idempotency_Key="k"),
            await hub.client.post("/subscriptions", json={"topic": "a", "callback": "http://127.0.0.1:9000/"}),
        ]
        page = await hub.client.get("/console")
        await read_only(hub.database_url, "off")
        await hub.until("/readyz", lambda answer: answer["database"] == "ok")
        again = await hub.publish("a", Idempotency_Key="k")

        assert (ready["status"], ready["database"]) == ("unavailable", "failing")
        assert [kind(answer)[::2] for answer in refused] == [(503, "database-unavailable")] * 3
        assert all("retry-after" in answer.headers for answer in refused)
        assert [answer for answer in refused if "read-only transaction" in answer.text or "25006" in answer.text] == []
        assert (page.status_code, again.status_code) == (503, 202)


_FULL = """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END$$"""


@pytest.mark.parametrize(
    ("path", "table"), [("/topics/a/events", "events"), ("/queues/q/messages", "messages"), ("/jobs", "jobs")]
)
async def test_after_a_refused_write_the_next_question_finds_the_hub_not_ready(
    running_hub: RunHub, path: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GS-08: with a full disk it was called ready for as long as its last test of a write was fresh."""
    monkeypatch.setattr(Readiness.__init__, "__defaults__", (600.0,))
    async with running_hub() as hub:
        await hub.client.get("/readyz")
        await hub.sql(_FULL)
        for name in (table, "readiness"):
            await hub.sql(f"CREATE TRIGGER disk BEFORE INSERT ON hookwire.{name} EXECUTE FUNCTION full_disk()")
        before = (await hub.client.get("/readyz")).status_code
        refused = await hub.client.post(path, json={"items": [{"payload": "x"}]} if "queues" in path else {"kind": "k"})
        after = (await hub.client.get("/readyz")).status_code
    assert (before, refused.status_code, after) == (200, 503, 503)


async def test_load_balancers_that_ask_often_make_the_database_write_seldom(database_url: str) -> None:
    """FC-06: all who ask share a write, at most once in five seconds."""
    async with opened(database_url) as (database, sql):
        gated = Gated(database)
        readiness = Readiness(
            gated,
            Overview(gated, CurrentVerdict(gated), "http://a", "development", "i").classify_outage,
            fresh_seconds=60,
        )
        found = await asyncio.gather(*(readiness.check() for _ in range(20)))
        written = await sql.fetchval("SELECT count(*) FROM hookwire.readiness")
    assert (found, gated.passed["check.writable"], written) == ([None] * 20, 1, 1)


async def test_a_full_disk_is_found_although_a_row_can_be_changed_in_place(running_hub: RunHub) -> None:
    """FC-06: the probe takes new blocks. Here a limit of the server stands for the end of the disk."""
    async with running_hub() as hub:
        name = hub.database_url.rpartition("/")[2]
        await hub.sql(f"ALTER DATABASE {name} SET temp_file_limit = '64kB'")
        await hub.sql(_TERMINATE)
        ready = await hub.until("/readyz", lambda answer: answer["database"] != "ok")

        assert (ready["status"], ready["database"]) == ("unavailable", "failing")


_TERMINATE = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def read_only(database_url: str, value: str) -> None:
    """Make the database's sessions read-only, or writable, from now on."""
    name = database_url.rpartition("/")[2]
    operator = await asyncpg.connect(database_url)
    await operator.execute("SET default_transaction_read_only = off")
    await operator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
    await operator.execute(_TERMINATE)
    await operator.close()


async def test_every_answer_carries_a_request_id(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        given = await hub.client.get("/none", headers={"X-Request-Id": "mine-1"})
        made = await hub.client.get("/none")

        assert (given.headers["x-request-id"], given.json()["request_id"]) == ("mine-1", "mine-1")
        assert made.headers["x-request-id"] == made.json()["request_id"] != ""


async def test_no_route_and_no_method_are_problems_too(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        missing, method = await hub.client.get("/none"), await hub.client.delete("/topics/a/settings")

        assert kind(missing) == (404, "application/problem+json", "not-found")
        assert kind(method) == (405, "application/problem+json", "method-not-allowed")
        assert method.headers["allow"] == "GET, HEAD, PUT"
