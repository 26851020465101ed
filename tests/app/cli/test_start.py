"""What the start of a command reads, and the start of a hub."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

import app.serve
from app.cli.commands import serve as serve_command
from app.cli.commands.jobs import jobs
from app.cli.main import application, brief
from app.cli.process import running
from app.settings.settings import Settings
from tests.app.cli.test_main import answering

_HEAVY = (
    "app.settings.settings", "structlog", "fastapi", "asyncpg", "aiokafka", "aio_pika", "app.web", "pygments",
    "pydantic", "rich", "httpx", "h11", "anyio", "email.message", "http.client",
)  # fmt: skip
_SCRIPT = """
import json, sys
from app.cli.main import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""
_HUB = """
import json, sys
from app.cli import main
from app.cli.process import running
def begin(work):
    work.close()
    import app.wiring
    print(json.dumps(sorted(sys.modules)))
    raise SystemExit
running._run = begin
sys.argv = ["hookwire", "serve"]
try:
    main.main()
except SystemExit:
    pass
"""


def _modules_of(*words: str) -> set[str]:
    command = [sys.executable, "-c", _SCRIPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", ["status", "publish a b", "subscriptions list", "jobs list", "topics list --limit 5"])
def test_a_command_that_asks_a_hub_imports_neither_a_server_nor_another_command(words: str) -> None:
    """Nothing listens at port 9, so that the failure's own words are among what is imported."""
    first = words.split(maxsplit=1)[0]
    found = _modules_of(*words.split(), "--url", "http://127.0.0.1:9")
    others = {f"app.cli.commands.{name}" for name in ("serve", "work", "status", "publish", "broker")}
    assert (found & {*_HEAVY}, found & others - {f"app.cli.commands.{first}"}) == (set(), set())


async def test_a_list_that_is_printed_into_a_pipe_needs_no_rich() -> None:
    answer = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"items": [%s], "next_cursor": null}'
    topic = b'{"topic": "a", "sinks": null, "order": "key", "last_event_id": null, "last_accepted_at": null}'
    async with answering(answer % topic) as hub:
        found = await asyncio.to_thread(_modules_of, "topics", "list", "--url", hub.url)
    assert found & {*_HEAVY, "app.cli.table"} == {"app.cli.table"}


@pytest.mark.parametrize("words", ["status", "publish", "subscriptions list", "jobs list", "topics", "queues list"])
def test_the_help_of_a_command_that_asks_a_hub_imports_no_settings(words: str) -> None:
    assert _modules_of(*words.split(), "--help") & {*_HEAVY} == set()


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_what_needs_no_command_imports_none(word: str) -> None:
    found = _modules_of(word)
    commands = {name for name in found if name.startswith(("app.cli.commands.", "app.cli.pipeline", "app.cli.consume"))}
    assert (commands, found & {*_HEAVY, "asyncio", "ssl"}) == ({"app.cli.commands.version"}, set())


def test_the_version_needs_no_command_line() -> None:
    assert {name for name in _modules_of("--version") if name.partition(".")[0] in ("typer", "app")} == {
        "app", "app.cli", "app.cli.lines", "app.cli.lines.command_list", "app.cli.lines.own_version", "app.cli.main",
    }  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_list_of_commands_is_the_same_without_them(words: list[str]) -> None:
    made = [CliRunner().invoke(commands, words) for commands in (brief(), application())]
    assert [(one.exit_code, one.output) for one in made] == [(made[0].exit_code, made[0].output)] * 2
    assert "periodic" in made[0].output


def test_a_shell_that_completes_a_line_gets_the_options_of_a_command() -> None:
    asked = {"_HOOKWIRE_COMPLETE": "complete_bash", "COMP_WORDS": "hookwire status --", "COMP_CWORD": "2"}
    command = [str(Path(sys.executable).with_name("hookwire"))]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True, timeout=60)
    assert "--topic" in done.stdout.split()


def test_a_hub_listens_before_it_has_imported_what_publishing_does_not_need() -> None:
    """The routes come after it listens, a broker's client where a broker is configured."""
    script = "import json, sys, app.serve, app.wiring; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    later = {"fastapi", "aiokafka", "aio_pika", "httpx", "app.web.application", "app.web.console"}
    assert later & set(json.loads(done.stdout)) == set()


def test_the_start_of_a_hub_imports_no_command_line_and_no_plugins(tmp_path: Path) -> None:
    """Without stand-ins, uvicorn imports its own command, and pydantic asks each installed distribution for plugins."""
    command = [sys.executable, "-c", _HUB]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    found = set(json.loads(done.stdout))
    unwanted = {
        "typer", "click", "rich", "pygments", "importlib.metadata", "multiprocessing", "uvicorn.supervisors", "tomllib",
    }  # fmt: skip
    assert (unwanted & found, {"app.wiring", "uvicorn.server", "pydantic", "structlog"} - found) == (set(), set())


def test_the_port_for_metrics_imports_no_other_route() -> None:
    """A process without the API would otherwise import all of it for three routes."""
    script = "import json, sys, app.web.api.operating.health; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    others = {"app.web.application", "app.web.console", "app.web.api.keys", "app.web.api.subscribing"}
    assert others & set(json.loads(done.stdout)) == set()


def test_a_hub_sets_what_it_has_imported_aside_from_the_collection_of_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection would otherwise go through the whole product while publishers wait."""
    begun: list[object] = []
    monkeypatch.setattr(app.serve, "serve", lambda *arguments: arguments)
    monkeypatch.setattr(running, "_run", begun.append)
    monkeypatch.setattr(running, "settings_from", lambda _: "settings")
    serve_command.serve()
    assert begun == [("settings", None, running.tune_gc)]


async def test_a_product_that_cannot_be_imported_says_so_while_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ImportError("no module named x")

    async def away(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(app.serve, "_hub", broken)
    monkeypatch.setattr(app.serve, "wait_for_database", away)
    settings = Settings(data_dir=tmp_path, database_url=SecretStr("postgresql://h@127.0.0.1:9/h"))
    with pytest.raises(ImportError, match="no module named x"):
        async with asyncio.timeout(60):
            await app.serve.serve(settings)


def test_settings_are_read_where_a_variable_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKWIRE_LISTEN", "127.0.0.1:9")
    assert "app.settings.settings" in _modules_of("status")


def test_one_command_alone_is_the_same_as_among_all() -> None:
    alone = application("jobs").registered_groups[0]
    among = next(group for group in application().registered_groups if group.name == "jobs")
    assert (alone.name, alone.rich_help_panel, alone.typer_instance) == (
        "jobs",
        among.rich_help_panel,
        among.typer_instance,
    )


@pytest.mark.parametrize(
    "words", ["jobs list --help", "jobs list --nonsense", "jobs list", "jobs periodic list --help"]
)
def test_a_command_of_a_group_is_read_alone_and_says_the_same(words: str) -> None:
    """Typer reads the options of all twenty commands otherwise, a tenth of a list's processor time."""
    given = [*words.split(), *(["--url", "http://127.0.0.1:9"] if words == "jobs list" else [])]
    alone, among = application("jobs", given[1:2]), application("jobs")
    said = [CliRunner().invoke(commands, given) for commands in (alone, among)]
    group = alone.registered_groups[0].typer_instance
    assert group is not None
    assert (said[0].exit_code, said[0].output) == (said[1].exit_code, said[1].output)
    assert len(group.registered_commands) == (1 if given[1] == "list" else len(jobs.registered_commands))


@pytest.mark.parametrize("words", [["jobs", "lst"], ["jobs"], ["jobs", "--json", "list"], ["jobs", "--help"]])
def test_a_group_without_the_name_of_a_command_knows_all_of_them(words: list[str]) -> None:
    group = application("jobs", words[1:2]).registered_groups[0].typer_instance
    assert group is jobs
