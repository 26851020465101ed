"""`hookwire consume` on a real RabbitMQ: nothing is acknowledged before its program succeeded, and nothing is lost."""

import asyncio
import json
import os
import secrets
import signal
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractIncomingMessage
from pamqp.commands import Basic

from app.cli.consume.consumer import ConsumeOptions, consume
from scripts.servers.rabbitmq import RabbitServer
from tests.waiting import poll, until


class Corner:
    """One test's queue and exchange, and the programs that it runs."""

    def __init__(self, server: RabbitServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.name = f"consume-{secrets.token_hex(4)}"

    def options(self, script: str = "", **changes: Any) -> ConsumeOptions:
        defaults = {"command": self.script(script) if script else (), "retry_seconds_first": 0.05}
        return ConsumeOptions(self.server.url, self.name, self.name, **{**defaults, **changes})

    def script(self, text: str) -> list[str]:
        """A program; in its text $D is a folder, `note X` appends a line to its log, `hang X` never ends after it."""
        path = self.folder / "script"
        verbs = 'note() { echo "$*" >> $D/log; }\nhang() { echo $$ > $D/pid; note $*; exec sleep 600; }'
        path.write_text(f"#!/bin/sh\nD={self.folder}\n{verbs}\n{text}\n")
        path.chmod(0o755)
        return [str(path)]

    def log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    async def until_logged(self, line: str) -> None:
        await until(lambda: line in self.log())

    async def kill(self, consumer: asyncio.subprocess.Process) -> None:
        """SIGKILL to a consumer, and to the program that it leaves behind."""
        consumer.kill()
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        await consumer.wait()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
        connection = await aio_pika.connect(self.server.url)
        async with connection, connection.channel(on_return_raises=True) as channel:
            yield channel

    async def declare(self, **arguments: Any) -> None:
        """What `consume` would make, before it starts."""
        async with self.channel() as channel:
            exchange = await channel.declare_exchange(self.name, "topic", durable=True)
            queue = await channel.declare_queue(self.name, durable=True, arguments=arguments or None)
            await queue.bind(exchange, "#")

    async def publish(self, *ids: str, body: bytes = b"", topic: str = "git.push", **headers: Any) -> None:
        async with self.channel() as channel:
            exchange = await channel.get_exchange(self.name)
            for message_id in ids:
                message = Message(
                    body, message_id=message_id, headers=headers, delivery_mode=DeliveryMode.PERSISTENT,
                    content_type="text/plain",
                )  # fmt: skip
                await exchange.publish(message, topic)

    async def publish_when_bound(self, message_id: str) -> None:
        async with asyncio.timeout(45):
            while True:
                try:
                    return await self.publish(message_id)
                except aio_pika.exceptions.PublishError:
                    await poll()

    async def left(self, queue: str | None = None) -> list[AbstractIncomingMessage]:
        """The messages that lie in a queue; they are taken."""
        messages = []
        async with self.channel() as channel:
            source = await channel.get_queue(queue or self.name)
            while (message := await source.get(no_ack=True, fail=False)) is not None:
                messages.append(message)
        return messages

    async def is_durable(self) -> bool:
        """Whether the queue is there and durable."""
        listed = await asyncio.to_thread(self.server.ctl, "list_queues", "name", "durable")
        return f"{self.name}\ttrue" in listed.splitlines()

    @property
    def ready(self) -> bytes:
        """What the command says when messages can arrive."""
        return f"hookwire: consumes {self.name}: messages can arrive\n".encode()

    async def start(self, *arguments: str, **changes: Any) -> asyncio.subprocess.Process:
        """The command in a process of its own."""
        program = (
            "import asyncio, json, sys\n"
            "from app.cli.consume.consumer import ConsumeOptions, consume\n"
            "sys.exit(asyncio.run(consume(ConsumeOptions(**json.loads(sys.argv[1])))))\n"
        )
        options = {
            "url": self.server.url, "queue": self.name, "exchange": self.name, "command": arguments,
            "retry_seconds_first": 0.05, **changes,
        }  # fmt: skip
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, json.dumps(options),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip


@pytest.fixture
def corner(rabbitmq: RabbitServer, tmp_path: Path) -> Corner:
    return Corner(rabbitmq, tmp_path)


async def done(options: ConsumeOptions, seconds: float = 60.0) -> int:
    async with asyncio.timeout(seconds):
        return await consume(options)


async def test_a_message_whose_properties_cannot_be_read_reaches_the_program(corner: Corner):
    """FM-03: the client's connection ended at it, and it came again for ever."""

    class Unreadable(Basic.Properties):
        def marshal(self) -> bytes:
            return struct.pack(">HQ", 1 << 6, 2**63 - 1)  # a time beyond the calendar

    await corner.declare()
    async with corner.channel() as channel:
        publisher = await channel.get_underlay_channel()
        await publisher.basic_publish(b"body", routing_key=corner.name, properties=Unreadable())
    assert await done(corner.options('note "$(cat) $HOOKWIRE_HEADER_X_UNREADABLE_PROPERTIES"', count=1)) == 0
    assert (corner.log()[0].startswith("body ValueError"), await corner.left()) == (True, [])


# --- one message ------------------------------------------------------------------------------------------------


async def test_a_program_gets_the_body_and_is_told_about_the_event(corner: Corner):
    await corner.declare()
    headers = {"hookwire-topic": "git.push", "hookwire-key": "site", "hookwire-sequence": 7, "cloudEvents_type": "push"}
    await corner.publish("evt_7", body=b"\x00\xffbody", **headers)
    script = 'cat > $D/body; env | grep ^HOOKWIRE_ | sort | while read line; do note "$line"; done'
    assert await done(corner.options(script, count=1)) == 0
    assert ((corner.folder / "body").read_bytes(), corner.log(), await corner.left()) == (
        b"\x00\xffbody",
        [
            "HOOKWIRE_ATTEMPT=1", "HOOKWIRE_CONTENT_TYPE=text/plain", "HOOKWIRE_EVENT_ID=evt_7",
            "HOOKWIRE_HEADER_CE_TYPE=push", "HOOKWIRE_KEY=site", "HOOKWIRE_SEQUENCE=7", "HOOKWIRE_TOPIC=git.push",
        ],
        [],
    )  # fmt: skip


async def test_what_is_missing_is_made_durable_and_only_what_is_asked_for_is_bound(corner: Corner):
    """GU-20."""
    options = corner.options("note $HOOKWIRE_EVENT_ID", count=1, bindings=("git.*", "site.#"))
    consuming = asyncio.create_task(done(options))
    await until(corner.is_durable)
    await corner.publish_when_bound("evt_1")
    with pytest.raises(aio_pika.exceptions.PublishError):
        await corner.publish("evt_2", topic="audit")
    assert (await consuming, corner.log()) == (0, ["evt_1"])


async def test_a_queue_that_is_there_is_used_as_its_owner_made_it(corner: Corner):
    """Declaring it again with other arguments would be refused (406)."""
    await corner.declare(**{"x-queue-type": "quorum", "x-max-length": 10})
    await corner.publish("evt_1")
    assert (await done(corner.options("note $HOOKWIRE_EVENT_ID", count=1)), corner.log()) == (0, ["evt_1"])


# --- failures ---------------------------------------------------------------------------------------------------


async def test_a_failing_program_is_tried_again_and_holds_up_what_lies_behind(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1", "evt_2")
    script = "note $HOOKWIRE_EVENT_ID $HOOKWIRE_ATTEMPT; test $HOOKWIRE_EVENT_ID$HOOKWIRE_ATTEMPT != evt_11"
    assert await done(corner.options(script, count=2)) == 0
    assert (corner.log(), await corner.left()) == (["evt_1 1", "evt_1 2", "evt_2 1"], [])


async def test_after_the_last_attempt_a_message_lies_in_the_dead_queue_with_its_story(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1", body=b"poison", **{"hookwire-key": "k"})
    await corner.publish("evt_2")
    options = corner.options("note $HOOKWIRE_EVENT_ID; test $HOOKWIRE_EVENT_ID = evt_2", count=2, attempts_max=3)
    assert await done(options) == 0
    (dead,) = await corner.left(options.dead_queue)
    assert (corner.log(), await corner.left()) == (["evt_1", "evt_1", "evt_1", "evt_2"], [])
    assert (dead.body, dead.message_id, dead.delivery_mode, dead.content_type, dict(dead.headers)) == (
        b"poison", "evt_1", 2, "text/plain",
        {"hookwire-key": "k", "hookwire-attempts": 3, "hookwire-failure": "exit 1", "hookwire-routing-key": "git.push"},
    )  # fmt: skip


async def test_a_run_beyond_its_time_has_failed(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1")
    script = "note $HOOKWIRE_ATTEMPT; test $HOOKWIRE_ATTEMPT = 2 || sleep 60"
    assert await done(corner.options(script, count=1, timeout_seconds=0.5)) == 0
    assert corner.log() == ["1", "2"]


async def test_a_quorum_queue_counts_attempts_across_consumers(corner: Corner):
    await corner.declare(**{"x-queue-type": "quorum"})
    await corner.publish("evt_1")
    killed = await corner.start(*corner.script("hang $HOOKWIRE_ATTEMPT"))
    await corner.until_logged("1")
    await corner.kill(killed)
    assert (await done(corner.options("note $HOOKWIRE_ATTEMPT", count=1)), corner.log()) == (0, ["1", "2"])


# --- ends -------------------------------------------------------------------------------------------------------


async def test_a_killed_consumer_loses_nothing(corner: Corner):
    """F09-like: SIGKILL in the middle of a run; the message comes to the next one."""
    await corner.declare()
    await corner.publish("evt_1", "evt_2")
    killed = await corner.start(*corner.script("hang begun $HOOKWIRE_EVENT_ID"))
    await corner.until_logged("begun evt_1")
    await corner.kill(killed)
    assert await done(corner.options("note done $HOOKWIRE_EVENT_ID", count=2)) == 0
    assert corner.log() == ["begun evt_1", "done evt_1", "done evt_2"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_soft_stop_finishes_the_run_and_acknowledges_it(corner: Corner, number: signal.Signals):
    await corner.declare()
    await corner.publish("evt_1", "evt_2")
    script = "note begun $HOOKWIRE_EVENT_ID; while ! test -e $D/go; do sleep 0.02; done; note done"
    stopped = await corner.start(*corner.script(script))
    await corner.until_logged("begun evt_1")
    os.killpg(stopped.pid, number)  # as Ctrl-C at a terminal: the program is not in our group
    (corner.folder / "go").touch()
    _, errors = await stopped.communicate()
    assert (stopped.returncode, errors, corner.log()) == (0, corner.ready, ["begun evt_1", "done"])
    assert [message.message_id for message in await corner.left()] == ["evt_2"]


async def test_a_second_signal_kills_the_program_and_its_message_goes_back(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1")
    stopped = await corner.start(*corner.script("hang begun"), attempts_max=1)
    await corner.until_logged("begun")
    stopped.send_signal(signal.SIGTERM)
    async with asyncio.timeout(45):
        while stopped.returncode is None:
            # One signal may merge with the one before it; one that comes while it ends would end it by itself.
            stopped.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), 5)
    assert (stopped.returncode, [message.message_id for message in await corner.left()]) == (1, ["evt_1"])


async def test_a_stop_during_the_pause_gives_the_message_back_at_once(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1")
    stopped = await corner.start(*corner.script("note failed; exit 1"), retry_seconds_first=50)
    assert stopped.stderr is not None
    await stopped.stderr.readuntil(b"given back\n")
    stopped.terminate()
    async with asyncio.timeout(30):
        assert (await stopped.wait(), len(await corner.left())) == (0, 1)


async def test_enough_messages_are_enough_however_many_run_at_once(corner: Corner):
    """Also when some of them fail first."""
    await corner.declare()
    await corner.publish(*(f"evt_{number}" for number in range(1, 21)))
    script = "note $HOOKWIRE_EVENT_ID; test $HOOKWIRE_ATTEMPT = 2"
    assert await done(corner.options(script, count=7, concurrency=5)) == 0
    assert len(await corner.left()) == 13


# --- outages ----------------------------------------------------------------------------------------------------


async def test_a_restart_of_the_broker_is_survived_and_what_had_succeeded_is_not_run_again(corner: Corner):
    """F24: the acknowledgement could not be sent, the message came back, and this process knows it."""
    await corner.declare()
    await corner.publish("evt_1", "evt_2", "evt_3")
    script = "note begun $HOOKWIRE_EVENT_ID; while ! test -e $D/go; do sleep 0.02; done"
    consuming = asyncio.create_task(done(corner.options(script, count=3), 60))
    await corner.until_logged("begun evt_1")
    await asyncio.to_thread(corner.server.stop_app)
    (corner.folder / "go").touch()
    await asyncio.to_thread(corner.server.start_app)
    assert await consuming == 0
    assert (corner.log(), await corner.left()) == ([f"begun evt_{number}" for number in (1, 2, 3)], [])


async def test_a_connection_that_is_cut_is_made_again(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1")
    consuming = asyncio.create_task(done(corner.options("note $HOOKWIRE_EVENT_ID", count=2)))
    await corner.until_logged("evt_1")
    await asyncio.to_thread(corner.server.close_all_connections, "a test cuts every connection")
    await corner.publish("evt_2")
    assert (await consuming, corner.log()) == (0, ["evt_1", "evt_2"])


async def test_a_queue_that_is_deleted_is_made_and_bound_again(corner: Corner):
    """F26."""
    await corner.declare()
    await corner.publish("evt_1")
    consuming = asyncio.create_task(done(corner.options("note $HOOKWIRE_EVENT_ID", count=2)))
    await corner.until_logged("evt_1")
    await asyncio.to_thread(corner.server.delete_queue, corner.name)
    await corner.publish_when_bound("evt_2")
    assert (await consuming, corner.log()) == (0, ["evt_1", "evt_2"])


async def test_no_broker_is_a_dependency_that_is_unreachable(free_port: int, capfd: pytest.CaptureFixture[str]):
    options = ConsumeOptions(f"amqp://user:hush@127.0.0.1:{free_port}/", "q", command=["true"], connect_seconds_max=0.5)
    assert await done(options) == 3
    assert "hush" not in capfd.readouterr().err


async def test_wrong_credentials_are_not_tried_again(rabbitmq: RabbitServer):
    assert await done(ConsumeOptions(rabbitmq.url.replace(":guest@", ":hush@"), "q", command=["true"]), 5) == 3


async def test_a_queue_that_belongs_to_another_connection_is_wrong_use(corner: Corner):
    async with corner.channel() as channel:
        await channel.declare_queue(corner.name, exclusive=True)
        assert await done(corner.options("true"), 5) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"url": "http://127.0.0.1/"}, "--amqp"), ({"queue": ""}, "--queue"), ({"queue": "amq.x"}, "--queue"),
        ({"exchange": ""}, "--exchange"), ({"bindings": ["x" * 256]}, "--bind"), ({"command": ()}, "--exec"),
        ({"print_bodies": True}, "--exec"), ({"command": ["/no/such/program"]}, "--exec"),
        ({"concurrency": 0}, "--concurrency"), ({"count": 0}, "--count"), ({"attempts_max": 0}, "--attempts-max"),
        ({"timeout_seconds": 0}, "--timeout"), ({"retry_seconds_first": -1}, "--retry-seconds"),
    ],
)  # fmt: skip
async def test_wrong_use_is_told_by_the_options_name(
    wrong: dict[str, Any], said: str, capfd: pytest.CaptureFixture[str]
):
    options = ConsumeOptions(**{"url": "amqp://127.0.0.1/", "queue": "q", "command": ["true"], **wrong})
    assert (await done(options), said in capfd.readouterr().err) == (2, True)


# --- output -----------------------------------------------------------------------------------------------------


async def test_bodies_are_printed_and_then_acknowledged(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1", body=b"one")
    await corner.publish("evt_2", body=b"\xff")
    printing = await corner.start(print_bodies=True, count=2)
    assert (await printing.communicate(), printing.returncode) == ((b"one\n\xff\n", corner.ready), 0)


async def test_json_lines_tell_what_was_printed(corner: Corner):
    await corner.declare()
    await corner.publish("evt_1", body="ü".encode(), **{"hookwire-key": "k", "hookwire-sequence": 1})
    await corner.publish("evt_2", body=b"\xff")
    printing = await corner.start(print_bodies=True, json_lines=True, count=2)
    output, _ = await printing.communicate()
    common = {"topic": "git.push", "content_type": "text/plain"}
    assert [json.loads(line) for line in output.splitlines()] == [
        {"event_id": "evt_1", "key": "k", "sequence": 1, "size_bytes": 2, "body": "ü", **common},
        {"event_id": "evt_2", "key": None, "sequence": None, "size_bytes": 1, "body_base64": "/w==", **common},
    ]


async def test_json_lines_tell_what_became_of_each_run_and_nothing_else(corner: Corner):
    """The program's own output does not mix with ours."""
    await corner.declare()
    await corner.publish("evt_1")
    script = corner.script("echo noise; test $HOOKWIRE_ATTEMPT = 2")
    running = await corner.start(*script, json_lines=True, count=1)
    output, errors = await running.communicate()
    lines = [json.loads(line) for line in output.splitlines()]
    assert [(x["event_id"], x["attempt"], x["outcome"], x["exit_status"], x["reason"]) for x in lines] == [
        ("evt_1", 1, "failed", 1, "exit 1"), ("evt_1", 2, "done", 0, ""),
    ]  # fmt: skip
    assert errors.count(b"noise") == 2


async def test_a_reader_that_goes_away_ends_the_command_quietly(corner: Corner):
    """B-52."""
    await corner.declare()
    printing = await corner.start(print_bodies=True)
    assert printing.stdout is not None
    await corner.publish("evt_1", body=b"one")
    assert await printing.stdout.readline() == b"one\n"
    printing.stdout._transport.close()  # type: ignore[attr-defined]
    await corner.publish("evt_2", body=b"two")
    assert printing.stderr is not None
    errors = await printing.stderr.read()
    assert (await printing.wait(), b"Traceback" in errors) == (0, False)
    assert [message.message_id for message in await corner.left()] == ["evt_2"]
