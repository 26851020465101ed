"""GET /status, and its faces: the page, the command, /readyz and the metrics say the same (GU-01, GU-02, GM-05)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.chaos.child import Child
from app.verdict.facts import read_facts
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, opened
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_console import shows
from tests.waiting import until


async def hookwire_status(hub: RunningHub) -> tuple[int, str]:
    """The exit code and the output of the command."""
    code, out, _ = await hookwire(hub, "status")
    return code, out


def reason_of(status: dict[str, Any], name: str) -> str:
    return str(part_of(status, "sink", name).get("reason"))


def part_of(status: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next((part for part in status["parts"] if (part["kind"], part["name"]) == (kind, name)), {"state": None})


async def test_a_process_apart_from_the_relay_says_that_kafka_does_not_answer_and_since_when(
    running_hub: RunHub, database_url: str, tmp_path: Path, free_port: int
) -> None:
    """GU-01: three events waited for Kafka; the page said that nothing fails, and `hookwire status` ended with 0."""
    settings = {
        "DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "METRICS_LISTEN": f"127.0.0.1:{free_port}",
    }  # fmt: skip
    relay = Child("relay", tmp_path, settings, command=["relay"])
    relay.port = free_port
    async with running_hub(("api",)) as hub:
        await hub.client.put("/topics/orders/settings", json={"sinks": ["kafka"]})
        await hub.publish("orders", b"1\n2\n3\n", content_type="application/x-ndjson")
        await relay.start()
        status = await hub.until("/status", lambda found: "does not answer" in reason_of(found, "kafka"))
        kafka = part_of(status, "sink", "kafka")
        page = await until(lambda: shows(hub, "Kafka does not answer since"))
        code, output = await hookwire_status(hub)
        ready = await hub.until("/readyz", lambda answer: answer["verdict"] == "trouble")
        await relay.drain(60)
        after = await hub.until("/status", lambda found: "is one running" in reason_of(found, "kafka"))

    since = kafka["since"][:19] + "Z"
    assert (status["verdict"], kafka["state"], kafka["waiting"], page) == ("trouble", "down", 3, True)
    assert kafka["reason"].startswith(f"Kafka does not answer since {since}; 3 events wait; ")
    assert (code, f"Kafka does not answer since {since}" in output) == (1, True)
    assert (ready["status"], "reason" in str(ready)) == ("ok", False)
    assert after["verdict"] == "trouble"


async def test_an_ordered_endpoint_that_is_slow_is_told_by_every_face(running_hub: RunHub, receiver: Receiver) -> None:
    """GU-02: 87 of one key waited, the oldest for two minutes; the page was green, and the command ended with 0."""
    async with running_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("orders", receiver.callback, ordered=True)
        await hub.publish("orders", Hookwire_Key="k")
        await receiver.wait_for(1)
        await hub.until(f"/subscriptions/{made['id']}", lambda one: one["waiting"] == 0)
        await hub.sql("UPDATE hookwire.attempts SET total_seconds = 4.0")
        await hub.sql(
            "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane, fence)"
            " SELECT 1000 + n, s.id, CASE n WHEN 0 THEN now() + interval '1 hour' ELSE 'infinity'::timestamptz END,"
            " now() - interval '130 s', 'default', 'k', CASE n WHEN 0 THEN 1 END"
            " FROM generate_series(0, 86) AS n, hookwire.subscriptions s"
        )
        status = await hub.until("/status", lambda found: part_of(found, "subscription", made["id"])["state"] == "slow")
        words = part_of(status, "subscription", made["id"])["reason"]
        one = (await hub.client.get(f"/subscriptions/{made['id']}")).json()
        page = await until(lambda: shows(hub, "87 wait, the oldest for 2 min"))
        code, output = await hookwire_status(hub)

        async def told() -> bool:
            return (
                f'hookwire_subscription_waiting{{subscription="{made["id"]}"}} 87.0'
                in (await hub.client.get("/metrics")).text
            )

        await until(told)
        metrics = (await hub.client.get("/metrics")).text

    assert words.startswith("87 wait, the oldest for 2 min")
    assert words.endswith("; it answers in 4.0 s; a delivery is in flight")
    assert (one["health"], one["blocked_by"], one["next_attempt_at"]) == ("slow", "in_flight", None)
    assert (page, code, "87 wait" in output) == (True, 1, True)
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert float(values["hookwire_deliveries_open"]) == 87
    assert 130 <= float(values["hookwire_delivery_oldest_seconds"]) < 1_000
    assert (
        values['hookwire_verdict{word="trouble"}'],
        values['hookwire_findings{kind="subscription",state="slow"}'],
    ) == ("1.0", "1.0")


async def test_a_late_subscription_that_the_verdict_does_not_reach_is_trouble(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GU-02: the verdict looks at the first 500; the list of the command had `behind`, and it ended with 0.

    A subscriber that fetches its events when it likes is no trouble.
    """
    monkeypatch.setattr("app.verdict.facts._NAMES_MAX", 1)
    codes, told = [], []
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("early", "http://127.0.0.1:9000/")
        for protocol in ("pull", "webhook"):
            await hub.subscribe("late", "http://127.0.0.1:9000/", name=protocol)
            await hub.sql("UPDATE hookwire.subscriptions SET protocol = 'pull', callback = '' WHERE name = 'pull'")
            await hub.sql(
                "INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)"
                " SELECT s.id, s.id, now() + interval '1 hour', now() - CASE s.topic WHEN 'late' THEN interval '2 min'"
                " ELSE interval '0' END, 'default' FROM hookwire.subscriptions s ON CONFLICT DO NOTHING"
            )
            code, text = await hookwire_status(hub)
            codes += [code, (await hookwire(hub, "status", "--topic", "late"))[0]]
            told.append(text.splitlines()[0])
        as_json = json.loads((await hookwire(hub, "status", "--json"))[1])

    assert (codes, told, as_json["verdict"]) == ([0, 0, 1, 1], ["ok", "trouble"], "trouble")


async def test_tasks_without_a_worker_and_dead_ones_are_told_by_every_face(running_hub: RunHub) -> None:
    """GM-05: `/metrics` had no gauge of them, the page no section, and `hookwire status` no word."""
    async with running_hub(ALL_ROLES) as hub:
        await hub.sql("SELECT hookwire.enqueue_task('mail', is_unique => false) FROM generate_series(1, 50)")
        await hub.sql("UPDATE hookwire.task_rows SET created_at = now() - interval '10 min'")
        await hub.sql("SELECT hookwire.submit('letters', 'x'::text) FROM generate_series(1, 7)")
        await hub.sql("SELECT hookwire.enqueue('resize')")
        await hub.sql(
            "INSERT INTO hookwire.dead_tasks (number, id, kind, description, reason, attempts, created_at)"
            " OVERRIDING SYSTEM VALUE SELECT n, n::text, 'mail', '', 'crash', 3, now() FROM generate_series(1, 3) AS n"
        )
        status = await hub.until("/status", lambda found: part_of(found, "task", "mail")["state"] == "late")
        page = await until(lambda: shows(hub, "task mail late 50 0 3"))
        code, output = await hookwire_status(hub)
        lines = (
            'hookwire_work_waiting{kind="task",name="mail"} 50.0', 'hookwire_work_dead{kind="task",name="mail"} 3.0',
            'hookwire_work_waiting{kind="queue",name="letters"} 7.0',
            'hookwire_work_waiting{kind="job",name="resize"} 1.0',
        )  # fmt: skip

        async def told() -> bool:
            text = (await hub.client.get("/metrics")).text
            return all(line in text for line in lines)

        await until(told)

    assert part_of(status, "queue", "letters")["waiting"] == 7
    assert (page, code, "50 wait, the oldest for 10 min" in output) == (True, 1, True)


async def test_dead_letters_count_for_a_day_unless_they_were_ended_on_purpose(database_url: str) -> None:
    """GU-01: a person gave it up, its subscription has ended, or it is older: no news."""
    rows = [
        ("exhausted", False, "1 min"),
        ("exhausted", True, "1 min"),
        ("gone", False, "1 min"),
        ("declined", False, "25 h"),
    ]
    async with opened(database_url) as (database, sql):
        await sql.execute(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
            " VALUES ('sub_1', 'webhook', 'orders', 'http://a/', 'active')"
        )
        await sql.executemany(
            "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, on_purpose, died_at)"
            " SELECT $1, s.id, 'default', $2, 1, $3, now() - $4::text::interval FROM hookwire.subscriptions s",
            [(number, *row) for number, row in enumerate(rows)],
        )
        found = [(row["subscription"], row["letters"]) for row in (await read_facts(database)).dead_letters]
    assert found == [("sub_1", 1)]


async def test_what_a_person_gives_up_is_no_trouble(running_hub: RunHub, receiver: Receiver) -> None:
    """GU-01: neither a delivery nor a record that a broker refused."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback)
        await hub.publish("a")
        retrying = await hub.until("/deliveries?state=retrying", lambda page: page["items"])
        await hub.client.post(f"/deliveries/{retrying['items'][0]['id']}/give-up", json={"reason": "no use"})
        await hub.sql(
            "WITH held AS (INSERT INTO hookwire.held (sink, tenant, topic, key, id, shard, layout)"
            " VALUES ('kafka', 'default', 'a', 'k', 1, 0, 1))"
            " INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)"
            " VALUES ('kafka', 'default', 'a', 'k', 'too_large', '', now() + interval '1 day')"
        )
        (hold,) = (await hub.client.get("/holds")).json()["items"]
        await hub.client.post(f"/holds/{hold['id']}/give-up", json={"reason": "no use"})
        dead = await hub.sql(
            "SELECT on_purpose FROM hookwire.dead_letters UNION ALL SELECT on_purpose FROM hookwire.relay_dead_letters"
        )
        status = (await hub.client.get("/status")).json()
    assert (dead, [part for part in status["parts"] if part["kind"] == "dead_letters"]) == ([(True,)] * 2, [])


async def test_a_key_for_some_topics_sees_its_own_only(running_hub: RunHub) -> None:
    """GU-01: nothing of other topics, and nothing of the sinks. /readyz says one word to everybody."""
    async with running_hub(access="keys") as hub:
        await hub.sql(
            "INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)"
            " SELECT 'kafka', 'default', topic, 'k', 'too_large', '', now()"
            " FROM unnest('{orders.a,users.a}'::text[]) AS topic"
        )
        keys = [await bearer(hub, "read", topics=topics) for topics in (["orders.#"], None)]

        async def found_by(key: str) -> Any:
            return (await hub.client.get("/status", headers=authorized(key))).json()

        async def is_told() -> bool:
            return "users.a" in str(await found_by(keys[1]))

        await until(is_told)  # an answer is shared for a second
        found = [await found_by(key) for key in keys]
        refused = [
            await hub.client.get("/status"),
            await hub.client.get("/status", headers=authorized(await bearer(hub, "publish"))),
        ]
        ready = (await hub.client.get("/readyz")).json()

    names = [{(part["kind"], part["name"]) for part in one["parts"]} for one in found]
    assert (names[0], found[0]["verdict"]) == ({("hold", "kafka orders.a")}, "trouble")
    assert names[1] >= {("hold", "kafka orders.a"), ("hold", "kafka users.a"), ("sink", "kafka"), ("deliveries", "")}
    assert [answer.status_code for answer in refused] == [401, 403]
    assert set(ready) == {"status", "database", "sinks", "verdict"}


_AUDITED = """
INSERT INTO hookwire.lake_audits (lake, ended_at, exit_code, findings, not_compared)
VALUES ('s3a://lakes/hub', now() - interval '7 h', 1, 3, 0)
"""


async def test_findings_of_the_last_audit_of_a_lake_are_told_by_the_api_the_command_and_the_page(
    running_hub: RunHub, database_url: str
) -> None:
    """GP-14: an audit ended with an exit code that nobody saw. A key for some topics does not see lakes."""
    async with running_hub(ALL_ROLES) as hub, opened(database_url) as (_, sql):
        await sql.execute(_AUDITED)
        status = await hub.until("/status", lambda found: part_of(found, "lake", "s3a://lakes/hub")["state"])
        page = await until(lambda: shows(hub, "lake s3a://lakes/hub: the last audit ended at"))
        code, output = await hookwire_status(hub)

    assert (status["verdict"], part_of(status, "lake", "s3a://lakes/hub")["state"], page) == (
        "trouble",
        "failing",
        True,
    )
    assert (code, "exit 1, 3 findings" in " ".join(output.split())) == (1, True)
