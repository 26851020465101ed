"""Tasks in a whole hub: RabbitMQ, the command `work`, the scaler, what a dead task tells (JB-22, JB-33, JB-36)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aio_pika
import asyncpg

from relay.amqp.notifications import AmqpNotifications
from relay.amqp.options import AmqpOptions
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub, opened
from tests.jobs.harness import INSERT, WAIT_SECONDS, Ran, drained, working
from tests.waiting import until


async def test_the_bare_id_travels_through_the_default_exchange_of_a_real_rabbitmq(
    running_hub: RunHub, rabbitmq: Any, database_url: str
) -> None:
    """JB-22, JB-23: the hub's relay sends it after COMMIT, persistent, to the durable queue task_queue."""
    async with running_hub(("api", "relay"), amqp_url=rabbitmq.url), opened(database_url) as (database, sql):
        await sql.execute(INSERT, "early")
        connection = await aio_pika.connect(rabbitmq.url)
        channel = await connection.channel()
        queue = await channel.declare_queue("task_queue", durable=True)
        message = await until(lambda: queue.get(fail=False))
        seen = (message.body, message.exchange, message.routing_key, message.delivery_mode)
        await message.nack(requeue=True)
        ran = Ran()
        source = AmqpNotifications(AmqpOptions(rabbitmq.url, "abcdefgh"))
        async with working(database, ran, source.listen):
            async with sql.transaction():
                await sql.execute(INSERT, "late")
            await channel.default_exchange.publish(aio_pika.Message(b"strange"), "task_queue")
            await ran.until(2)
            await drained(sql)
        await connection.close()

    assert (seen, sorted(task.id for task in ran.tasks)) == (
        (b"early", "", "task_queue", aio_pika.DeliveryMode.PERSISTENT),
        ["early", "late"],
    )


async def command(*words: str, database_url: str, **environment: str) -> tuple[int, str, str]:
    """A command of ours, to its end."""
    given = {**os.environ, "HOOKWIRE_DATABASE_URL": database_url, **environment}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app.cli", *words,
        env=given, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(WAIT_SECONDS):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_the_command_work_runs_a_program_for_each_task(database_url: str, tmp_path: Path) -> None:
    """JB-56, JB-23, JB-82: exit 0 finishes, 100 is dead at once; the description comes on standard input."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nd=$(cat)\necho "$HOOKWIRE_TASK_KIND $HOOKWIRE_ATTEMPT $d" >> {tmp_path}/log\n'
                       'case "$d" in *bad*) exit 100;; esac\n')  # fmt: skip
    program.chmod(0o755)
    sql = await asyncpg.connect(database_url)
    code, made, _ = await command("tasks", "enqueue", "mail.send", '{"n": 1}', database_url=database_url)
    await sql.execute("""SELECT hookwire.enqueue_task('mail.send', '{"n": "bad"}')""")
    done = await command("work", "--kind", "mail.send", "--count", "2", "--", str(program), database_url=database_url)
    dead = await sql.fetch("SELECT kind, reason FROM hookwire.dead_tasks")
    left = await sql.fetchval("SELECT count(*) FROM hookwire.task_rows")
    await sql.close()

    assert (code, len(made.strip()), done[0]) == (0, 36, 0), done[2]
    assert sorted((tmp_path / "log").read_text().splitlines()) == ['mail.send 1 {"n": "bad"}', 'mail.send 1 {"n": 1}']
    assert ([tuple(row) for row in dead], left) == ([("mail.send", "exit 100")], 0)


async def test_the_command_work_runs_a_program_for_each_message(database_url: str, tmp_path: Path) -> None:
    """JB-56: exit 0 accepts, any other exit rejects."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ncat >> {tmp_path}/log; [ "$HOOKWIRE_ATTEMPT" = 1 ]\n')
    program.chmod(0o755)
    sql = await asyncpg.connect(database_url)
    for body in ("a", "b"):
        await sql.execute("SELECT hookwire.submit('q', $1::text)", body)
    done = await command("work", "--queue", "q", "--count", "2", "--", str(program), database_url=database_url)
    left = await sql.fetchval("SELECT count(*) FROM hookwire.messages")
    await sql.close()

    assert (done[0], (tmp_path / "log").read_text(), left) == (0, "ab", 0), done[2]


async def test_the_scaler_starts_workers_for_a_burst_and_drains_them_after_it(
    database_url: str, tmp_path: Path
) -> None:
    """JB-36, JT-17: real worker processes; stopped, it drains them, and every task has run."""
    sql = await asyncpg.connect(database_url)
    await sql.execute("SELECT hookwire.enqueue_task('k', to_jsonb(n)) FROM generate_series(1, 24) n")
    given = {**os.environ, "HOOKWIRE_DATABASE_URL": database_url}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app.cli", "scale", "--min", "0", "--max", "2", "--interval", "0.1", "--cool-down", "0.2",
        "--", sys.executable, "-m", "app.cli", "work", "--concurrency", "4", "--", "sleep", "0.3",
        env=given, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    workers = []

    async def all_ran() -> bool:
        workers.append(await sql.fetchval("SELECT count(*) FROM hookwire.task_workers"))
        return bool(await sql.fetchval("SELECT count(*) = 0 FROM hookwire.task_rows"))

    async with asyncio.timeout(WAIT_SECONDS):
        await until(all_ran)
        await until(lambda: sql.fetchval("SELECT count(*) = 0 FROM hookwire.task_workers"))
        process.send_signal(signal.SIGTERM)
        _, err = await process.communicate()
    await sql.close()

    assert (process.returncode, max(workers)) == (0, 2), err.decode()


async def test_a_dead_task_tells_operators_a_program_and_a_mail_server(
    running_hub: RunHub, receiver: Receiver, tmp_path: Path, free_port: int
) -> None:
    """JB-33, WH-I08: the event names what it is about; nothing is forgotten while the mail server is away."""
    program = tmp_path / "told"
    program.write_text(f"#!/bin/sh\ncat >> {tmp_path}/log; echo >> {tmp_path}/log\n")
    program.chmod(0o755)
    mails: list[str] = []
    settings = {
        "dead_task_command": str(program), "dead_task_mail_to": "ops@example.org",
        "smtp_url": f"smtp://127.0.0.1:{free_port}",
    }  # fmt: skip
    async with running_hub(ALL_ROLES, **settings) as hub:
        await hub.subscribe("hookwire.operator", receiver.callback)
        await hub.client.put("/task-kinds/mytask", json={"on_crash": "abandon", "crash_seconds": 0.1})
        await hub.sql(INSERT, "42")
        await hub.sql("UPDATE hookwire.tasks SET start_time = now() WHERE id = '42'")
        [delivered] = await receiver.wait_for(1)
        server = await asyncio.start_server(lambda r, w: smtp(r, w, mails), "127.0.0.1", free_port)
        dead = await hub.until("/tasks/dead", lambda answer: answer["items"])
        await until(lambda: hub.sql("SELECT 1 FROM hookwire.dead_tasks HAVING count(*) = count(told_at)"))
        again = (await hub.client.post("/tasks/dead/redrive", json={"reason": "mended"})).json()
        task = (await hub.client.get("/tasks/42")).json()
        cancelled = await hub.client.post("/tasks/42/cancel", json={})
        server.close()

    event = json.loads(delivered.body)
    assert {name: event[name] for name in ("type", "about", "task_kind", "attempts")} == {
        "type": "task.dead", "about": {"kind": "task", "id": "42"}, "task_kind": "mytask", "attempts": 1,
    }  # fmt: skip
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["id"] == "42"
    assert ("1 dead task (mytask)" in mails[0], dead["items"][0]["id"]) == (True, "42")
    assert (len(again["numbers"]), task["state"], task["attempts"], cancelled.status_code) == (1, "waiting", 0, 204)


async def smtp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mails: list[str]) -> None:
    """As much of a mail server as a client needs."""
    writer.write(b"220 test\r\n")
    while line := (await reader.readline()).decode().strip():
        if line.upper() == "DATA":
            writer.write(b"354 go\r\n")
            mails.append((await reader.readuntil(b"\r\n.\r\n")).decode())
        elif line.upper() == "QUIT":
            writer.write(b"221 bye\r\n")
            break
        writer.write(b"250 ok\r\n")
    writer.close()


REFUSED: list[tuple[str, str, Any, int]] = [
    ("GET", "/tasks/nobody", None, 404),
    ("POST", "/tasks/nobody/cancel", {}, 404),
    ("PUT", "/task-kinds/no%20good", {}, 400),
    ("PUT", "/task-kinds/*", {"crash_seconds": 5}, 400),
    ("PUT", "/task-kinds/k", {"on_crash": "explode"}, 400),
    ("PUT", "/task-kinds/k", {"compensation_kind": "a b"}, 400),
    ("GET", "/tasks?state=done", None, 400),
]


async def test_what_is_wrong_about_tasks_is_a_problem(kept_hub: RunningHub) -> None:
    found = [
        (method, path, body, (await kept_hub.client.request(method, path, json=body)).status_code)
        for method, path, body, _ in REFUSED
    ]
    assert found == REFUSED
