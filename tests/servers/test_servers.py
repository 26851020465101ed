"""The tests' own servers: each boots, answers a real client, and can be hurt and healed without losing data (HN-01)."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import aiomysql
import asyncpg
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from scripts.servers.fleet import VARIABLES, take_server
from scripts.servers.given import GivenServer
from scripts.servers.kafka import KafkaServer
from scripts.servers.kafka_classes import class_archive
from scripts.servers.mariadb import MariaServer
from scripts.servers.missing import MissingServerError
from scripts.servers.postgres import PostgresServer, PostgresStandby, embedded_bin_dir, system_bin_dir
from scripts.servers.rabbitmq import RabbitServer
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0


# --- PostgreSQL -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, timeout=DEADLINE_SECONDS)
    try:
        yield connection
    finally:
        await connection.close(timeout=DEADLINE_SECONDS)


async def test_postgres_answers_with_the_settings_that_the_suite_relies_on(postgres: PostgresServer) -> None:
    async with connected(postgres.url) as connection:
        names = ["fsync", "max_connections", "max_prepared_transactions"]
        shown = {name: await connection.fetchval(f"SHOW {name}") for name in names}
    assert shown == {"fsync": "on", "max_connections": "200", "max_prepared_transactions": "10"}


async def test_both_postgres_versions_are_the_oldest_supported_and_the_embedded_one(
    postgres18: PostgresServer, postgres15: PostgresServer
) -> None:
    """EC-P10."""
    async with connected(postgres18.url) as new, connected(postgres15.url) as old:
        majors = new.get_server_version().major, old.get_server_version().major
    assert majors[0] == 18
    assert 15 <= majors[1] <= 18


async def test_postgres_keeps_committed_rows_and_its_port_through_kill_and_both_restarts(
    postgres: PostgresServer,
) -> None:
    """IT-09."""
    url = postgres.url
    async with connected(url) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 0 AS round")
    for round_, hurt in enumerate(
        [postgres.kill, lambda: postgres.restart("fast"), lambda: postgres.restart("immediate")], start=1
    ):
        await asyncio.to_thread(hurt)
        await asyncio.to_thread(postgres.start)
        async with connected(url) as connection:
            await connection.execute("INSERT INTO kept VALUES ($1)", round_)
    async with connected(url) as connection:
        rows = await connection.fetch("SELECT round FROM kept ORDER BY round")
        await connection.execute("DROP TABLE kept")
    assert [row["round"] for row in rows] == [0, 1, 2, 3]


@pytest.mark.parametrize("bin_dir", [embedded_bin_dir, system_bin_dir], ids=["postgres18", "postgres15"])
async def test_a_standby_takes_over_and_the_former_primary_follows_it(
    bin_dir: Callable[[], Path], servers_folder: Path
) -> None:
    """HA-01: a switchover as a manager does it; no commit is lost."""
    folder = Path(tempfile.mkdtemp(prefix="pair-", dir=servers_folder))
    folder.chmod(0o711)
    primary = PostgresServer("primary", folder / "primary", bin_dir())
    standby = PostgresStandby("standby", folder / "standby", primary)
    try:
        for start in (primary.start, standby.start):
            await asyncio.to_thread(start)
        async with connected(primary.url) as connection:
            await connection.execute("CREATE TABLE kept AS SELECT 1 AS row")
        for step in (primary.stop, standby.promote, lambda: primary.follow(standby)):
            await asyncio.to_thread(step)
        async with connected(standby.url) as connection:
            await connection.execute("INSERT INTO kept VALUES (2)")
        async with connected(primary.url) as connection:
            is_standby = await connection.fetchval("SELECT pg_is_in_recovery()")
            await until(lambda: connection.fetchval("SELECT count(*) = 2 FROM kept"), DEADLINE_SECONDS)
    finally:
        standby.discard()
        primary.discard()
        shutil.rmtree(folder)
    assert is_standby


async def test_a_paused_postgres_answers_nothing_until_it_is_resumed(postgres: PostgresServer) -> None:
    """IT-08: a backend has left the postmaster's process group and is paused all the same."""
    async with connected(postgres.url) as connection:
        postgres.pause()
        try:
            query = asyncio.ensure_future(connection.fetchval("SELECT 42"))
            await asyncio.wait({query}, timeout=0.3)
            silent = (query.done(), postgres.is_paused(), postgres.is_ready())
        finally:
            postgres.resume()
        assert (silent, await query) == ((False, True, False), 42)


async def test_database_url_is_a_migrated_database_of_its_own(database_url_both: str) -> None:
    """EC-P09."""
    async with connected(database_url_both) as connection:
        name = await connection.fetchval("SELECT current_database()")
        has_schema = await connection.fetchval("SELECT to_regnamespace('hookwire') IS NOT NULL")
    assert (name.startswith("hookwire_test_"), has_schema) == (True, True)


# --- MariaDB ----------------------------------------------------------------------------------------------------


async def test_a_starting_mariadb_leaves_the_temporary_tables_of_the_others(servers_folder: Path) -> None:
    """It deletes all such files of its folder when it starts, also those of a statement that another server runs."""
    first, second = (MariaServer(name, servers_folder / f"{name}-mariadb") for name in ("first", "second"))
    try:
        await asyncio.to_thread(first.start)
        connection = await aiomysql.connect(
            host="127.0.0.1", port=first.port, user="hookwire", password="secret", db="mysql", autocommit=True
        )
        try:
            async with connection.cursor() as cursor:
                await cursor.execute("CREATE TEMPORARY TABLE numbers ENGINE=Aria AS SELECT seq FROM seq_1_to_1000")
                await asyncio.to_thread(second.start)
                await cursor.execute("SELECT count(*), sum(seq) FROM numbers")
                found = await cursor.fetchone()
                await cursor.execute("DROP TEMPORARY TABLE numbers")
        finally:
            connection.close()
        assert found == (1000, 500500)
    finally:
        first.discard()
        second.discard()


# --- Kafka ------------------------------------------------------------------------------------------------------


async def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


async def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with (
        AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        asyncio.timeout(DEADLINE_SECONDS),
    ):
        return [(await consumer.getone()).value for _ in range(count)]


async def test_kafka_keeps_acknowledged_records_and_its_port_through_kill_and_restart(kafka: KafkaServer) -> None:
    """EC-K01, IT-11, PL-K06: what is formatted is not formatted again."""
    bootstrap, meta = kafka.bootstrap, kafka.folder / "data" / "meta.properties"
    formatted = meta.read_text()
    await produce(bootstrap, "kept", b"before")
    await asyncio.to_thread(kafka.kill)
    await asyncio.to_thread(kafka.start)
    await produce(bootstrap, "kept", b"after kill")
    await asyncio.to_thread(kafka.restart)
    await produce(bootstrap, "kept", b"after restart")
    assert await consume(bootstrap, "kept", 3) == [b"before", b"after kill", b"after restart"]
    assert meta.read_text() == formatted


def test_the_archive_of_classes_is_made_in_a_cache_folder_that_does_not_exist_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first start on a machine whose home is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    archive = class_archive(lambda option: Path(option.partition("=")[2]).write_bytes(b"classes"))
    assert (archive.parent, archive.read_bytes()) == (tmp_path / "none" / "hookwire", b"classes")


def test_kafka_is_small_and_alone(kafka: KafkaServer) -> None:
    """PL-K05, PL-K07, PL-K08: one node with an id of its own, 512 MB of heap and the serial collector."""
    words = psutil.Process(kafka.pid).cmdline()
    meta = dict(
        line.split("=") for line in (kafka.folder / "data" / "meta.properties").read_text().split() if "=" in line
    )
    assert {"-Xmx512m", "-XX:+UseSerialGC", "kafka.Kafka"} < set(words)
    assert (len(meta["cluster.id"]), meta["node.id"]) == (22, "1")


async def test_a_paused_kafka_answers_nothing_until_it_is_resumed(kafka: KafkaServer) -> None:
    """IT-08."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait("paused", b"warm")
        kafka.pause()
        try:
            sending = asyncio.ensure_future(producer.send_and_wait("paused", b"late"))
            await asyncio.wait({sending}, timeout=0.3)
            silent = (sending.done(), kafka.is_paused(), kafka.is_ready())
        finally:
            kafka.resume()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await sending
    assert silent == (False, True, False)


async def test_kafka_advertises_the_fault_proxy_so_that_clients_do_not_go_round_it(kafka: KafkaServer) -> None:
    """IT-02: more than the first connection comes through the proxy."""
    connections = 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            writer.write(chunk)
        writer.close()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", kafka.proxied_port)
        async with asyncio.TaskGroup() as both_ways:
            both_ways.create_task(relay(reader, broker_writer))
            both_ways.create_task(relay(broker_reader, writer))

    async with await asyncio.start_server(proxy, "127.0.0.1", kafka.advertised_port):
        await produce(kafka.proxied_bootstrap, "proxied", b"1")
    assert connections >= 2
    assert await consume(kafka.bootstrap, "proxied", 1) == [b"1"]


async def test_a_consumer_group_starts_without_the_initial_delay(kafka: KafkaServer) -> None:
    """RK-11, EC-K08."""
    properties = (kafka.folder / "server.properties").read_text().splitlines()
    assert "group.initial.rebalance.delay.ms=0" in properties


# --- RabbitMQ ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def channel(rabbitmq: RabbitServer) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    connection = await aio_pika.connect(rabbitmq.url, timeout=DEADLINE_SECONDS)
    async with connection:
        yield await connection.channel(publisher_confirms=True, on_return_raises=True)


async def publish(through: aio_pika.abc.AbstractChannel, queue: str, body: bytes) -> None:
    message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await through.default_exchange.publish(message, routing_key=queue, timeout=DEADLINE_SECONDS)


async def test_rabbitmq_keeps_confirmed_messages_and_its_port_through_kill_and_restart(rabbitmq: RabbitServer) -> None:
    """The queue's declaration is on the disk before the kill; that `declare` is answered does not mean so."""
    url = rabbitmq.url
    async with channel(rabbitmq) as opened:
        await opened.declare_queue("kept", durable=True)
        await publish(opened, "kept", b"before")
    await asyncio.to_thread(rabbitmq.sync_declarations)
    await asyncio.to_thread(rabbitmq.kill)
    await asyncio.to_thread(rabbitmq.start)
    async with channel(rabbitmq) as opened:
        await publish(opened, "kept", b"after kill")
    await asyncio.to_thread(rabbitmq.restart)
    async with channel(rabbitmq) as opened:
        queue = await opened.declare_queue("kept", durable=True)
        bodies = [(await queue.get(no_ack=True)).body for _ in range(2)]
        await queue.delete()
    assert (bodies, rabbitmq.url) == ([b"before", b"after kill"], url)


@pytest.mark.parametrize(
    ("log", "recovered"),
    [
        ("", False),
        ("Starting RabbitMQ 3.10.8 on Erlang 25\nstarted TCP listener", False),
        ("Starting RabbitMQ 3.10.8 on Erlang 25\nServer startup complete; 0 plugins started.", True),
        ("Starting RabbitMQ 3\nServer startup complete\nStarting RabbitMQ 3\nstarted TCP listener", False),
    ],
)
def test_a_rabbitmq_has_recovered_when_its_latest_start_is_complete(log: str, recovered: bool, tmp_path: Path) -> None:
    """A node that answers may still be starting."""
    node = RabbitServer("rabbitmq", tmp_path)
    node.log_path.write_text(log, encoding="utf-8")
    assert node.has_recovered() == recovered


async def test_a_paused_rabbitmq_confirms_nothing_until_it_is_resumed(rabbitmq: RabbitServer) -> None:
    """IT-08."""
    async with channel(rabbitmq) as opened:
        await opened.declare_queue("paused", auto_delete=True)
        rabbitmq.pause()
        try:
            publishing = asyncio.ensure_future(publish(opened, "paused", b"late"))
            await asyncio.wait({publishing}, timeout=0.3)
            silent = (publishing.done(), rabbitmq.is_paused(), rabbitmq.is_ready())
        finally:
            rabbitmq.resume()
        await publishing
    assert silent == (False, True, False)


async def test_the_memory_watermark_blocks_publishers_until_it_is_raised(rabbitmq: RabbitServer) -> None:
    """IT-10."""
    async with channel(rabbitmq) as opened:
        await opened.declare_queue("blocked", auto_delete=True)
        await asyncio.to_thread(rabbitmq.set_vm_memory_high_watermark, 0.0001)
        try:
            publishing = asyncio.ensure_future(publish(opened, "blocked", b"late"))
            await asyncio.wait({publishing}, timeout=0.3)
            blocked = not publishing.done()
        finally:
            await asyncio.to_thread(rabbitmq.set_vm_memory_high_watermark, 0.4)
        await publishing
    assert blocked


async def test_the_broker_deletes_a_queue_and_closes_connections_on_command(rabbitmq: RabbitServer) -> None:
    """IT-10."""
    connection = await aio_pika.connect(rabbitmq.url, timeout=DEADLINE_SECONDS)
    closed = asyncio.Event()
    connection.close_callbacks.add(lambda *_: closed.set())
    opened = await connection.channel(publisher_confirms=True, on_return_raises=True)
    await opened.declare_queue("doomed", durable=True)
    await asyncio.to_thread(rabbitmq.delete_queue, "doomed")
    with pytest.raises(aio_pika.exceptions.DeliveryError):
        await publish(opened, "doomed", b"unroutable")
    await asyncio.to_thread(rabbitmq.close_all_connections, "a test")
    async with asyncio.timeout(DEADLINE_SECONDS):
        await closed.wait()


async def test_the_broker_refuses_after_stop_app_and_answers_after_start_app(rabbitmq: RabbitServer) -> None:
    """IT-10."""
    await asyncio.to_thread(rabbitmq.stop_app)
    refused = not rabbitmq.is_ready()
    await asyncio.to_thread(rabbitmq.start_app)
    assert (refused, rabbitmq.is_ready()) == (True, True)


# --- the environment, and what is missing -----------------------------------------------------------------------


def test_an_address_in_the_environment_wins_and_is_never_hurt(postgres18: PostgresServer, tmp_path: Path) -> None:
    """EC-P09, EC-K06."""
    given = take_server("postgres18", tmp_path, {VARIABLES["postgres18"]: postgres18.url})
    assert isinstance(given, GivenServer)
    with pytest.raises(MissingServerError, match="'kill' needs a PostgreSQL that the suite booted itself"):
        given.kill()
    assert (given.url, list(tmp_path.iterdir())) == (postgres18.url, [])


def test_a_given_server_that_does_not_answer_is_named_in_one_sentence(free_port: int, tmp_path: Path) -> None:
    with pytest.raises(MissingServerError) as caught:
        take_server("kafka", tmp_path, {VARIABLES["kafka"]: f"127.0.0.1:{free_port}"})
    assert str(caught.value) == "Apache Kafka does not answer at the address that HOOKWIRE_TEST_KAFKA names."


def test_a_missing_java_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PL-K08."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingServerError) as caught:
        take_server("kafka", tmp_path, {})
    assert str(caught.value) == "Java 17 or newer is missing (found none): run scripts/install-servers."


def test_install_servers_does_nothing_when_all_is_there() -> None:
    done = subprocess.run([ROOT / "scripts" / "install-servers"], capture_output=True, text=True, check=False)
    all_of_them = "postgres15 mariadb kafka rabbitmq amqp-tools prosody faketime chromium pgbouncer haproxy"
    assert (done.returncode, done.stdout) == (0, f"Everything is installed for: {all_of_them}.\n")


@pytest.mark.parametrize(
    ("servers", "code", "missing"),
    [
        (["kafka"], 1, ["Java 17 or newer", "Maven"]),
        (["postgres18", "kafka"], 1, ["Java 17 or newer", "Maven"]),
        (["postgres18"], 0, []),
        (["rabbitmq", "mariadb"], 0, []),
        (["libzmq"], 1, ["A C compiler", "pkg-config", "libzmq"]),
        (["oracle"], 2, []),
    ],
)
def test_install_servers_asks_only_for_what_the_named_servers_need(
    servers: list[str], code: int, missing: list[str], tmp_path: Path
) -> None:
    """FT-17: on a machine without Java and Maven, for an account that may not install them."""
    for tool in ("bash", "sed", "head", "cut"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n", encoding="utf-8")
    (tmp_path / "id").chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts" / "install-servers", *servers],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    named = [line.partition(" is missing")[0] for line in done.stderr.splitlines() if " is missing" in line]
    assert (done.returncode, named) == (code, missing), done.stderr


OWNER = """
import sys, time
from pathlib import Path
from scripts.servers.fleet import take_server
from scripts.servers.warden import WARDEN
folder = Path(sys.argv[1])
WARDEN.remove(folder)
print(*[take_server(name, folder, {}).pid for name in ("postgres18", "rabbitmq")], flush=True)
time.sleep(600)
"""


async def test_servers_and_their_folder_go_when_their_owner_is_killed(servers_folder: Path) -> None:
    folder = servers_folder / "orphans"
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(folder), cwd=ROOT, stdout=subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        pids = [int(pid) for pid in (await owner.stdout.readline()).split()]
    were_there = [is_running(pid) for pid in pids]
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    await until(lambda: not folder.exists())
    assert (were_there, [is_running(pid) for pid in pids]) == ([True, True], [False, False])


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


# --- the command ------------------------------------------------------------------------------------------------


def command(folder: Path, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "scripts.servers", verb, "--dir", str(folder), *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(servers_folder: Path):
    made = Path(tempfile.mkdtemp(dir=servers_folder))
    yield made
    command(made, "down", "--delete")


@pytest.mark.parametrize(
    "names", [["postgres18", "postgres15"], pytest.param([], marks=pytest.mark.slow)], ids=["two", "all"]
)
def test_up_status_env_and_down_work_on_servers_across_processes(folder: Path, names: list[str]) -> None:
    up = command(folder, "up", *names)
    wanted = names or list(VARIABLES)
    assert (up.returncode, [line.split()[0] for line in up.stdout.splitlines()]) == (0, wanted), up.stderr

    listed = command(folder, "status", "--json")
    states = {row["name"]: row["state"] for row in json.loads(listed.stdout)}
    assert (listed.returncode, states) == (0, dict.fromkeys(wanted, "ready"))

    exported = [line.removeprefix("export ").partition("=") for line in command(folder, "env").stdout.splitlines()]
    assert [name for name, _, _ in exported] == [VARIABLES[name] for name in wanted]

    down = command(folder, "down")
    assert (down.returncode, down.stdout.split()[::2]) == (0, wanted)
    assert command(folder, "status").returncode == 1


def test_every_verb_reaches_a_server_that_another_process_started(folder: Path) -> None:
    def state() -> str:
        return json.loads(command(folder, "status", "--json").stdout)[0]["state"]

    states = []
    for verb in ["up", "pause", "resume", "kill", "restart", "stop"]:
        assert command(folder, verb, "postgres18").returncode == 0
        states.append((verb, state()))
    assert states == [
        ("up", "ready"),
        ("pause", "paused"),
        ("resume", "ready"),
        ("kill", "down"),
        ("restart", "ready"),
        ("stop", "down"),
    ]


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "said"),
    [
        ("up", ["oracle"], 2, "there is no server 'oracle'"),
        ("kill", [], 2, "required: NAME"),
        ("kill", ["kafka"], 3, "kafka is not running; start it by: python -m scripts.servers up kafka"),
        ("env", [], 3, "No server is running; start them by: python -m scripts.servers up"),
        ("status", [], 1, ""),
        ("down", [], 0, ""),
    ],
)
def test_exit_codes_tell_wrong_use_from_missing_servers(
    folder: Path, verb: str, arguments: list[str], code: int, said: str
) -> None:
    done = command(folder, verb, *arguments)
    assert (done.returncode, said in done.stderr) == (code, True)
