"""The command, as processes: output, exit codes, and never a traceback (B-51..B-57)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.database import is_made
from app.cli.failure import CommandFailed
from app.cli.main import application
from app.cli.table import show
from app.settings.settings import Settings
from tests.app.conftest import WAIT_SECONDS, RunHub
from tests.waiting import until

HOOKWIRE = Path(sys.executable).with_name("hookwire")
COMMANDS = (
    "serve",
    "relay",
    "deliver",
    "broker",
    "publish",
    "seed",
    "quickstart",
    "config validate",
    "config show",
    "subscribe",
    "listen",
    "monitor",
    "test-filter",
    "replay",
    "attempts",
    "undelivered",
    "status",
    "subscriptions list",
    "subscriptions test",
    "events list",
    "events trace",
    "topics list",
    "holds list",
    "deadletters list",
    "call",
    "consume",
    "pipeline archive",
    "pipeline runs",
    "pipeline doctor",
    "pipeline audit",
    "pipeline compact",
    "pipeline erase",
    "pipeline replay",
    "pipeline report",
    "pipeline usage",
    "pipeline retain",
    "pump",
    "keys create",
    "migrate",
    "doctor",
    "prove",
)
NOTICE = "hookwire: nobody listens: no subscription matches this topic, and it goes to no configured broker\n"


@dataclass(frozen=True)
class Finished:
    code: int | None
    stdout: str
    stderr: str


@asynccontextmanager
async def started(*words: str, **variables: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command as a process in a clean environment; killed if the test leaves it running."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWIRE_")}
    environment |= {f"HOOKWIRE_{name}": value for name, value in variables.items()}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        HOOKWIRE, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment | {"COLUMNS": "200"}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def hookwire(*words: str, stdin: bytes = b"", **variables: str) -> Finished:
    """Run the command to its end; whatever it does, it shows no traceback."""
    async with started(*words, **variables) as process:
        async with asyncio.timeout(60):
            stdout, stderr = await process.communicate(stdin)
    assert b"Traceback" not in stderr, stderr.decode()
    return Finished(process.returncode, stdout.decode(), stderr.decode())


async def ended(process: asyncio.subprocess.Process) -> Finished:
    async with asyncio.timeout(WAIT_SECONDS):
        stdout, stderr = await process.communicate()
    assert b"Traceback" not in stderr, stderr.decode()
    return Finished(process.returncode, stdout.decode(), stderr.decode())


@dataclass(frozen=True)
class Other:
    """Some other server; ``asked`` is set when a request has arrived."""

    url: str
    asked: asyncio.Event


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[Other]:
    """A server that gives every connection these bytes, or nothing at all and keeps it open."""
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        if answer:
            writer.write(answer)
        else:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield Other(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked)
    server.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    finished = CliRunner().invoke(application(command.split(maxsplit=1)[0]), [*command.split(), "--help"])

    assert (finished.exit_code, "Example" in finished.stdout, f"hookwire {command}" in finished.stdout) == (
        0,
        True,
        True,
    )


def test_a_help_is_broken_where_the_terminal_ends_and_keeps_its_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    audit, sync = (
        CliRunner().invoke(application(name[0]), [*name, "--help"]).stdout for name in (["pipeline", "audit"], ["sync"])
    )

    assert "Run `hookwire pipeline archive` first." in " ".join(audit.split())
    assert "[topics.NAME] and [[subscriptions]]" in sync


def test_outside_a_terminal_a_row_of_a_table_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(("Id", "Answer"), [("dlv_1_1", "connect: " + "x" * 300), ("dlv_1_2", "[b] 503")], folds=("Answer",))

    assert [line.split(maxsplit=1) for line in map(str.rstrip, capsys.readouterr().out.splitlines())] == [
        ["Id", "Answer"], ["dlv_1_1", "connect: " + "x" * 300], ["dlv_1_2", "[b] 503"],
    ]  # fmt: skip


def test_the_version_is_that_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed alone there is no distribution of the name hookwire, which is the SDK's."""
    monkeypatch.setattr("importlib.metadata.version", {"hookwire-server": "1.2.3"}.__getitem__)
    finished = CliRunner().invoke(application(), ["--version"])

    assert (finished.exit_code, finished.stdout) == (0, "hookwire 1.2.3\n")


async def test_the_first_key_is_made_by_the_command_and_opens_the_hub(running_hub: RunHub) -> None:
    """SE-04: made, listed without its text, revoked; production refuses to start without one (SC-18)."""
    async with running_hub(access="keys") as hub:
        server = {"DATABASE_URL": hub.database_url}
        made = json.loads((await hookwire("keys", "create", "ops", "--scope", "admin", "--json", **server)).stdout)
        published = await hookwire("publish", "a", "x", URL=hub.url, PUBLIC_URL=hub.url, TOKEN=made["key"])
        without = await hookwire("publish", "a", "x", PUBLIC_URL=hub.url)
        wrong = await hookwire("publish", "a", "x", URL=hub.url, TOKEN="hwk_000000000000_" + "0" * 40)
        revoked = await hookwire("keys", "revoke", made["id"], **server)
        listed = json.loads((await hookwire("keys", "list", "--json", **server)).stdout)

        assert (published.code, without.code, revoked.code) == (0, 2, 0), published.stderr
        assert "A valid API key is needed" in without.stderr
        assert without.stderr.endswith("HOOKWIRE_TOKEN is not set; set it to an API key\n")
        assert "not a key of this hub" in wrong.stderr
        assert [(key["id"], key["revoked_at"] is None, "key" in key) for key in listed] == [(made["id"], False, False)]


@pytest.mark.parametrize(
    "words",
    [("create", "a", "--scope", "root"), ("create", "a", "--scope", "read", "--topic", "a..b"),
     ("create", "a", "--scope", "read", "--expires-in", "soon"), ("revoke", "key_none")],
)  # fmt: skip
async def test_a_key_that_cannot_be_is_refused(database_url: str, words: Sequence[str]) -> None:
    assert (await hookwire("keys", *words, DATABASE_URL=database_url)).code == 2


async def test_without_a_command_the_list_is_shown() -> None:
    finished = await hookwire()

    assert [command for command in COMMANDS if command.split()[0] not in finished.stdout] == []


@pytest.mark.parametrize(
    "words", [("nothing",), ("publish",), ("publish", "a", "--nothing"), ("publish", "a", "x", "--timeout", "soon")]
)
def test_wrong_use_exits_with_2(words: Sequence[str]) -> None:
    assert CliRunner().invoke(application(), words).exit_code == 2


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        (("serve",), "LISTENN", "x"),
        (("doctor",), "PROFILE", "x"),
        (("migrate",), "DATABASE_URL", "x"),
        (("publish", "a"), "CONFIG", "/none.toml"),
    ],
)
async def test_a_bad_setting_exits_with_2_and_its_name(command: Sequence[str], name: str, value: str) -> None:
    """B-53."""
    finished = await hookwire(*command, **{name: value})

    assert (finished.code, f"HOOKWIRE_{name}" in finished.stderr, finished.stdout) == (2, True, "")


# --- publish and subscribe --------------------------------------------------------------------------------------


async def test_publish_prints_the_id_and_says_when_nobody_listens(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.web.publishing.notice._PATIENCE_SECONDS", 60.0)  # a courtesy, left out if it is busy
    async with running_hub() as hub:
        finished = await hookwire("publish", "orders.created", '{"n": 1}', "--key", "k", "--url", hub.url)

        [(topic, key, content_type, payload)] = await hub.sql(
            "SELECT topic, key, content_type, payload FROM hookwire.events"
        )
        assert (topic, key, content_type, payload) == ("orders.created", "k", "application/json", b'{"n": 1}')
        assert (finished.code, finished.stdout.startswith("evt_"), finished.stderr) == (0, True, NOTICE)


async def test_publish_finds_the_hub_by_the_settings(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        by_url = await hookwire("publish", "a", PUBLIC_URL=hub.url)
        by_listen = await hookwire("publish", "a", LISTEN=hub.url.removeprefix("http://"))
        by_variable = await hookwire("publish", "a", URL=hub.url, PUBLIC_URL="http://127.0.0.1:9")

        assert (by_url.code, by_listen.code, by_variable.code) == (0, 0, 0)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf" + bytes(range(256)), b"x" * 900_000])
async def test_publish_sends_standard_input_or_a_file_as_it_is(
    running_hub: RunHub, tmp_path: Path, data: bytes
) -> None:
    """B-51."""
    path = tmp_path / "event"
    path.write_bytes(data)
    async with running_hub() as hub:
        piped = await hookwire("publish", "a", "-", "--url", hub.url, stdin=data)
        filed = await hookwire("publish", "a", f"@{path}", "--content-type", "x/y", "--url", hub.url)

        assert (piped.code, filed.code) == (0, 0)
        assert await hub.sql("SELECT content_type, payload FROM hookwire.events ORDER BY id") == [
            (None, data),
            ("x/y", data),
        ]


async def test_publish_prints_json_when_asked(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        single = await hookwire("publish", "a", "x", "--json", "--url", hub.url)
        batch = await hookwire(
            "publish", "a", "-", "--content-type", "application/x-ndjson", "--json", "--url", hub.url, stdin=b"1\n2\n"
        )

        assert json.loads(single.stdout)["topic"] == "a"
        assert [item["sequence"] for item in json.loads(batch.stdout)] == [2, 3]


async def test_publish_repeats_safely_with_an_idempotency_key(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        words = ("publish", "a", "x", "--idempotency-key", "k", "--url", hub.url)

        assert (await hookwire(*words)).stdout == (await hookwire(*words)).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("a b", "x"),
        ("a", "x", "--idempotency-key", "é"),
        ("a", "x", "--content-type", "a\nb"),
        ("a", "@/none"),
        ("a", "{", "--content-type", "application/x-ndjson"),
        ("a", "x", "--url", "ftp://a"),
        ("a", "x", "--url", "http://[::1"),
        ("a/../../subscriptions", "x"),
    ],
    ids=str,
)
async def test_publish_refuses_in_one_sentence(running_hub: RunHub, words: Sequence[str]) -> None:
    async with running_hub() as hub:
        finished = await hookwire("publish", *words, PUBLIC_URL=hub.url)

        assert (finished.code, finished.stderr.count("\n"), finished.stderr[:10]) == (2, 1, "hookwire: ")


async def test_an_endless_standard_input_is_refused_in_bounded_memory(running_hub: RunHub) -> None:
    """B-51."""
    async with started("publish", "a", "-", "--url", "http://127.0.0.1:9") as process:
        assert process.stdin is not None
        try:
            while process.returncode is None:
                process.stdin.write(bytes(1 << 20))
                await process.stdin.drain()
        except ConnectionError:
            pass
        finished = await ended(process)

    assert (finished.code, finished.stderr) == (2, "hookwire: the data have at most 67108864 bytes\n")


async def test_a_closed_standard_input_is_told(running_hub: RunHub) -> None:
    """B-51."""
    async with running_hub() as hub:
        shell = await asyncio.create_subprocess_shell(
            f"{HOOKWIRE} publish a - --url {hub.url} <&-", stderr=asyncio.subprocess.PIPE
        )
        _, stderr = await shell.communicate()

        assert (shell.returncode, stderr) == (2, b"hookwire: standard input is closed\n")


UNAUTHORISED = b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 24\r\n\r\n{"title": "Who are you?"}'
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
NO_HUB = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.parametrize(
    ("answer", "code"),
    [(UNAUTHORISED, 2), (UNAVAILABLE, 3), (BROKEN, 1), (NO_HUB, 1), (b"nonsense\r\n\r\n", 1), (b"", 1)],
)
async def test_what_the_other_side_does_decides_the_exit_code(answer: bytes, code: int) -> None:
    """B-57: refused 3 (below), 401 2, time-out 1."""
    async with answering(answer) as other:
        finished = await hookwire("publish", "a", "x", "--url", other.url, "--timeout", "1")

    assert (finished.code, finished.stderr.count("\n")) == (code, 1)


async def test_a_time_out_names_the_key_to_repeat_with() -> None:
    async with answering(b"") as other:
        finished = await hookwire("publish", "a", "x", "--url", other.url, "--timeout", "0.5")

    assert "repeat with --idempotency-key cli-" in finished.stderr


async def test_a_hub_that_does_not_run_is_unreachable(free_port: int) -> None:
    """B-57."""
    for words in (("publish", "a", "x"), ("subscribe", "a", "http://127.0.0.1:9000/")):
        finished = await hookwire(*words, LISTEN=f"127.0.0.1:{free_port}")

        assert (finished.code, "Start it with `hookwire serve`" in finished.stderr) == (3, True)


async def test_environment_proxies_are_not_asked(running_hub: RunHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with running_hub() as hub:
        assert (await hookwire("publish", "a", "x", "--url", hub.url)).code == 0


async def test_subscribe_prints_the_secret_this_once(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        text = await hookwire("subscribe", "orders.#", "http://127.0.0.1:9000/", "--url", hub.url)
        as_json = await hookwire("subscribe", "a", "http://127.0.0.1:9000/", "--ordered", "--json", "--url", hub.url)

        [first, second] = (await hub.client.get("/subscriptions")).json()["items"]
        assert (text.code, text.stdout.split()[:3]) == (0, ["id", first["id"], "secret"])
        assert text.stdout.split()[3].startswith("whsec_")
        assert (json.loads(as_json.stdout)["id"], second["ordered"]) == (second["id"], True)


async def test_a_refused_callback_names_the_setting(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        finished = await hookwire("subscribe", "a", "http://10.0.0.1/", "--url", hub.url)

        assert (finished.code, "HOOKWIRE_EGRESS_ALLOW_CIDRS" in finished.stderr) == (2, True)


# --- signals and streams ----------------------------------------------------------------------------------------


async def test_interrupting_a_command_that_reads_ends_it_by_the_signal() -> None:
    """B-56: a shell says 130."""
    async with started("publish", "a", "-", "--url", "http://127.0.0.1:9") as process:
        assert process.stdin is not None
        process.stdin.transport.set_write_buffer_limits(0)
        process.stdin.write(bytes(1 << 20))
        await process.stdin.drain()  # it is more than a pipe holds: once it is gone, it is being read
        process.send_signal(signal.SIGINT)
        finished = await ended(process)

    assert finished == Finished(-signal.SIGINT, "", "")


async def test_interrupting_a_command_that_waits_for_an_answer_exits_with_130() -> None:
    """B-56."""
    async with answering(b"") as other, started("publish", "a", "x", "--url", other.url) as process:
        async with asyncio.timeout(WAIT_SECONDS):
            await other.asked.wait()
        process.send_signal(signal.SIGINT)
        finished = await ended(process)

    assert (finished.code, finished.stdout) == (130, "")


async def test_an_interrupt_while_it_still_imports_shows_nothing() -> None:
    """B-56: at any time."""
    async with started("doctor", "--help") as process:
        maps = Path(f"/proc/{process.pid}/maps")
        await until(lambda: "pydantic_core" in maps.read_text())
        process.send_signal(signal.SIGINT)
        finished = await ended(process)

    assert finished == Finished(-signal.SIGINT, "", "")


async def test_a_reader_that_leaves_ends_it_quietly() -> None:
    """B-52."""
    read, write = os.pipe()
    os.close(read)
    process = await asyncio.create_subprocess_exec(
        HOOKWIRE, "doctor", "--json", stdout=write, stderr=asyncio.subprocess.PIPE
    )
    os.close(write)
    _, stderr = await process.communicate()

    assert (process.returncode, stderr) == (1, b"")


async def test_no_terminal_no_locale_and_one_column_are_enough(tmp_path: Path) -> None:
    """B-55."""
    process = await asyncio.create_subprocess_exec(
        HOOKWIRE, "doctor", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "COLUMNS": "1", "HOOKWIRE_DATA_DIR": str(tmp_path)},
    )  # fmt: skip
    _, stderr = await process.communicate()

    assert (process.returncode, stderr) == (0, b"")


# --- migrate and doctor -----------------------------------------------------------------------------------------


@pytest.fixture
async def empty_database_url(database_url: str) -> AsyncIterator[str]:
    """A database without our schema."""
    server = await asyncpg.connect(database_url)
    name = f"{database_url.rpartition('/')[2]}_empty"
    await server.execute(f'CREATE DATABASE "{name}"')
    yield f"{database_url.rpartition('/')[0]}/{name}"
    await server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await server.close()


async def test_migrate_plans_verifies_and_applies(empty_database_url: str) -> None:
    """WH-A10."""
    url = {"DATABASE_URL": empty_database_url}
    plan = await hookwire("migrate", "--plan", **url)
    wrong = await hookwire("migrate", "--verify", **url)
    applied = await hookwire("migrate", "--json", **url)
    right = await hookwire("migrate", "--verify", **url)

    assert (plan.code, plan.stdout.splitlines()[0]) == (0, "pending 0001_publishing")
    assert (wrong.code, right.code, right.stdout) == (1, 0, "nothing is pending\n")
    assert json.loads(applied.stdout)["applied"] == [line.split()[1] for line in plan.stdout.splitlines()]


async def test_migrate_refuses_a_history_that_is_not_ours(database_url: str) -> None:
    """SC-10."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE hookwire.migrations SET checksum = 'other' WHERE version = 1")
    await connection.close()
    finished = await hookwire("migrate", DATABASE_URL=database_url)

    assert (finished.code, "0001_publishing was changed" in finished.stderr) == (1, True)


async def test_config_is_validated_and_shown_without_connecting_to_anything(free_port: int, tmp_path: Path) -> None:
    """WH-A10: secrets are masked."""
    url = f"postgresql://hookwire:s3cret@127.0.0.1:{free_port}/none"
    variables = {"DATABASE_URL": url, "DATA_DIR": str(tmp_path), "RETENTION_DAYS": "7"}
    sound = await hookwire("config", "validate", "--json", **variables)
    shown = await hookwire("config", "show", "--json", **variables)
    unsound = await hookwire("config", "validate", **variables, LISTEN="0.0.0.0:8080")
    bad = await hookwire("config", "validate", EGRESS_ALLOW_CIDRS="10.0.0.1/8")

    assert (sound.code, {check["level"] for check in json.loads(sound.stdout)} <= {"ok", "note"}) == (0, True)
    assert json.loads(shown.stdout) == {"database_url": "**********", "data_dir": str(tmp_path), "retention_days": 7}
    assert (unsound.code, bad.code, "EGRESS_ALLOW_CIDRS" in bad.stderr) == (1, 2, True)


async def test_doctor_finds_nothing_wrong_with_a_sound_installation(
    database_url: str, tmp_path: Path, free_port: int
) -> None:
    where = {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "LISTEN": f"127.0.0.1:{free_port}"}
    finished = await hookwire("doctor", **where)

    assert (finished.code, finished.stdout.splitlines()[-1]) == (0, "32 checks, 0 findings")
    assert "not configured (HOOKWIRE_AMQP_URL)" in finished.stdout


async def test_doctor_exits_with_1_and_a_cure_when_there_are_findings(
    database_url: str, tmp_path: Path, free_port: int
) -> None:
    (tmp_path / "secret.keys").touch(0o644)
    (tmp_path / "secret.keys").chmod(0o644)
    where = {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path), "LISTEN": f"127.0.0.1:{free_port}"}
    finished = await hookwire("doctor", "--json", **where)

    [finding] = [check for check in json.loads(finished.stdout) if check["level"] not in ("ok", "note")]
    assert (finished.code, finding["id"], finding["cure"]) == (
        1, "SC-18", f"run: chmod 600 {tmp_path / 'secret.keys'}",
    )  # fmt: skip


async def test_doctor_exits_with_3_when_something_cannot_be_reached(free_port: int, tmp_path: Path) -> None:
    """The database, Kafka, AMQP: each is named."""
    address = f"127.0.0.1:{free_port}"
    finished = await hookwire(
        "doctor", "--json", DATABASE_URL=f"postgresql://u:canary@{address}/x", AMQP_URL=f"amqp://u:canary@{address}",
        KAFKA_BOOTSTRAP_SERVERS=address, DATA_DIR=str(tmp_path),
    )  # fmt: skip

    unreachable = [check["id"] for check in json.loads(finished.stdout) if check["level"] == "unreachable"]
    assert (finished.code, unreachable, "canary" in finished.stdout) == (3, ["database", "kafka", "amqp"], False)


async def test_doctor_compares_the_ledger(database_url: str, tmp_path: Path) -> None:
    """PL-A04, PL-A10: without Spark; a cell whose sides differ is a finding; the report is a table, or JSON."""
    sql = await asyncpg.connect(database_url)
    await sql.execute(
        "UPDATE hookwire.ledger_cursor SET since_at = now() - interval '9 days', through_at = now();"
        "INSERT INTO hookwire.ledger (hour, sink, tenant, topic, bucket, owed_count, owed_sum, owed_min, owed_max)"
        " VALUES (date_trunc('hour', now()) - interval '2 days', 'kafka', 'default', 'orders', 1, 5, 7, 1, 17)"
    )
    await sql.close()
    where = {"DATABASE_URL": database_url, "DATA_DIR": str(tmp_path)}
    table, report = await asyncio.gather(
        hookwire("doctor", "--ledger", **where), hookwire("doctor", "--ledger", "--json", **where)
    )
    [cell] = json.loads(report.stdout)["unequal"]
    assert (table.code, report.code, cell["verdict"], cell["missing"]) == (1, 1, "lost", 5)
    assert ("lost 5" in table.stdout, table.stdout.splitlines()[-1].endswith("0 dead; 1 finding")) == (True, True)


@pytest.mark.parametrize("words", ["keys create shop --scope admin", "keys list", "layout show", "doctor --ledger"])
async def test_a_command_in_some_other_folder_makes_no_database_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
) -> None:
    """Its key would open nothing: the hub has another database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    finished = await hookwire(*words.split())

    assert (finished.code, "HOOKWIRE_DATA_DIR" in finished.stderr, list(tmp_path.iterdir())) == (2, True, [])


def test_a_data_folder_that_we_may_not_enter_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    settings = Settings(data_dir=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", closed)
        with pytest.raises(CommandFailed, match="HOOKWIRE_DATA_DIR") as failed:
            is_made(settings)
    assert failed.value.code == 3


async def test_attempts_of_an_id_that_is_no_delivery_are_wrong_use() -> None:
    finished = await hookwire("attempts", "sub_3f1c0a9be2d45c7780aa", URL="http://127.0.0.1:9")

    assert (finished.code, "(dlv_...) nor an event (evt_...)" in finished.stderr) == (2, True)


async def test_doctor_changes_nothing_where_nothing_is_yet(tmp_path: Path, free_port: int) -> None:
    finished = await hookwire("doctor", DATA_DIR=str(tmp_path / "state"), LISTEN=f"127.0.0.1:{free_port}")

    assert (finished.code, "does not exist yet" in finished.stdout, list(tmp_path.iterdir())) == (0, True, [])


async def test_consume_wants_a_broker_and_something_to_do(free_port: int) -> None:
    none = await hookwire("consume", "--queue", "q", "--print")
    nothing = await hookwire("consume", "--queue", "q", "--amqp", "amqp://127.0.0.1")

    assert (none.code, "HOOKWIRE_AMQP_URL" in none.stderr) == (2, True)
    assert (nothing.code, "--exec SCRIPT or --print" in nothing.stderr) == (2, True)
