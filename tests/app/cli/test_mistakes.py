"""What commands say to frequent mistakes, and words that no user should have to read (GU-15)."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from app.checks.check import Check
from app.checks.settings import settings_checks
from app.cli.data import has_waiting_input
from app.cli.main import application, main
from app.cli.process import late_methods, stand_ins
from app.settings.settings import Settings
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import RunHub

ROOT = Path(__file__).parents[3]

REQUIREMENT = re.compile(r"\b(?:B|[A-Z]{2})-[A-Z]?[0-9]{2,3}\b")
"""An id of a requirement or a finding."""


@pytest.fixture(autouse=True)
def process_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """`main` changes how its process makes classes and what it imports, and this one runs other tests."""
    monkeypatch.setattr(late_methods, "compile_late", lambda: None)
    monkeypatch.setattr(stand_ins, "put_stand_ins", lambda: None)


@pytest.mark.parametrize(
    ("words", "data", "code", "said"),
    [
        (["publish", "a", "-"], b"", 0, "hookwire: there is no data; the event is stored empty\n"),
        (["publish", "a", '{"a": 1'], b"", 0, "hookwire: the data are not valid JSON; the event is stored as it is\n"),
        (["publish", "a", '{"a": 1}'], b"", 0, ""),
        (["publish", "a", "[1] to do"], b"", 0, "the data are not valid JSON; the event is stored as it is\n"),
        (["publish", "a", "hello"], b"", 0, ""),
        (["publish", "a"], b"", 0, ""),
        (
            ["replay", "--dead-letters", "--since", "2h", "--until", "3h"], b"", 2,
            "hookwire: --until 3h is not after --since 2h: with spans, the larger one is --since\n",
        ),
        (["deadletters", "show", "dlv_1_1"], b"", 2, "There is no such dead letter; `hookwire deadletters list` "),
        (
            ["subscribe", "a", "http://127.0.0.1:1/"], b"", 2,
            "port 1 is not allowed; allowed are 80, 443, 8443, most from 1024 on",
        ),
        (["publish", "a", "/etc/hostname"], b"", 0, "To send the contents of the file, write @/etc/hostname\n"),
        (["replay", "--since", "2h"], b"", 2, "name who gets them by --subscription, or choose --dead-letters"),
        (["events", "show", "41"], b"", 2, "the id of an event looks like evt_k3v7q2ha_42"),
        (["subscriptions", "pause", "billing"], b"", 2, "ids look like sub_3f1c0a9be2d45c7780aa"),
        (["queues", "purge", "nosuch"], b"", 2, "There is no queue nosuch."),
        (["sync", "nosuch.toml"], b"", 2, "cannot read nosuch.toml: No such file or directory\n"),
        (["attempts"], b"", 2, "Missing argument 'DELIVERY_OR_EVENT'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
async def test_a_mistake_is_told_so_that_one_can_go_on(
    shared_hub: RunHub, words: Sequence[str], data: bytes, code: int, said: str
) -> None:
    """GU-15."""
    async with shared_hub() as hub:
        found, _, errors = await hookwire(hub, *words, data=data) if words != ["attempts"] else await bare(words)
    assert (found, said in errors, bool(said) or "stored" not in errors) == (code, True, True), errors


async def bare(words: Sequence[str]) -> tuple[int, str, str]:
    from typer.testing import CliRunner

    done = CliRunner().invoke(application(), list(words))
    return done.exit_code, done.stdout, done.output


def _texts(command: Any) -> Iterator[str]:
    yield command.help or ""
    yield from (getattr(parameter, "help", None) or "" for parameter in command.params)
    for below in getattr(command, "commands", {}).values():
        yield from _texts(below)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            if name not in ("example", "examples"):
                yield from _strings(below)
    elif isinstance(value, list):
        for below in value:
            yield from _strings(below)
    elif isinstance(value, str):
        yield value


def test_helps_settings_and_openapi_name_no_requirement() -> None:
    """GU-15: `SC-18` and `FC-09` say nothing to a user."""
    texts = [
        *_texts(typer.main.get_command(application())),
        *_strings(json.loads((ROOT / "openapi/openapi.json").read_text("utf-8"))),
        *(field.description or "" for field in Settings.model_fields.values()),
    ]
    assert [text for text in texts if REQUIREMENT.search(text)] == []


def test_the_pages_of_users_name_no_requirement() -> None:
    """GU-15: only docs/conformance and docs/adr are for builders, and faults.md numbers its own scenarios."""
    pages = [
        page
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        if not {"conformance", "adr"} & set(page.parts) and page.name != "faults.md"
    ]
    found = {
        page.name: words for page in pages if (words := REQUIREMENT.findall(page.read_text("utf-8").replace("SE-", "")))
    }
    assert (len(pages) > 40, found) == (True, {})


def test_a_check_is_told_without_its_id(tmp_path: Any) -> None:
    """GU-15: the id stays in JSON, for scripts."""
    found = list(settings_checks(Settings(data_dir=tmp_path), {}))
    assert found != []
    assert [check.sentence() for check in found if check.id in check.sentence()] == []
    assert Check("SC-01", "proxies", "warn", "none", "set one").sentence() == "proxies: none; set one"


@pytest.mark.parametrize("command", [["work", "--kind", "mail", "--"], ["scale", "--"]])
def test_a_program_that_cannot_run_is_told_before_anything_runs(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GM-12 b, GU-15: `work` used up the attempts of its tasks, and `scale` ended in a traceback."""
    monkeypatch.setattr("sys.argv", ["hookwire", *command, "./no-such-program"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err[:51]) == (
        2,
        "hookwire: ./no-such-program is no program that can ",
    )


def test_input_that_nobody_reads_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GU-15: `hookwire publish t < event.json` stored an empty event without a word."""
    found = []
    for content in (b"x", b""):
        file = tmp_path / "input"
        file.write_bytes(content)
        with file.open() as opened:
            monkeypatch.setattr("sys.stdin", opened)
            found.append(has_waiting_input())
    assert found == [True, False]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("--url http://h:1 status", "status --url http://h:1"),
        ("--url=http://h:1 --json status --topic a", "status --topic a --url=http://h:1 --json"),
        ("--json events list --limit 3", "events list --limit 3 --json"),
        ("events --limit 3 list", "events list --limit 3"),
        ("pipeline --lake /l runs", "pipeline runs --lake /l"),
        ("--subscription sub_1 undelivered", "undelivered --subscription sub_1"),
    ],
)
def test_an_option_before_its_command_is_answered_with_the_line_that_was_meant(
    written: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hookwire --url X status` said only "No such option: --url"."""
    monkeypatch.setattr("sys.argv", ["hookwire", *written.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert (ended.value.code, told.rstrip().endswith(f"stands behind it: hookwire {meant}")) == (2, True), told


@pytest.mark.parametrize("written", ["--nonsense status", "--url status", "--help", "--url http://h:1 publsh"])
def test_another_wrong_option_is_told_as_before(
    written: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["hookwire", *written.split()])
    with pytest.raises(SystemExit):
        main()
    assert "stands behind it" not in capsys.readouterr().err
