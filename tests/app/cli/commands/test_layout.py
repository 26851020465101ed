"""`hookwire layout`: shown, planned, changed and refused in words (RO-05, RR-11)."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application


@pytest.fixture(autouse=True)
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", database_url)
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", str(tmp_path))


def hookwire(*words: str) -> tuple[str, str]:
    result = CliRunner().invoke(application("layout"), ["layout", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout, result.stderr


def test_a_dry_run_says_what_would_be_done_and_does_nothing() -> None:
    output, said = hookwire("change", "--groups", "webhooks=3", "--dry-run")
    shown, _ = hookwire("show")
    assert (output.splitlines(), said) == (
        [
            "layout 1 -> 2, not done: a dry run",
            "  webhooks: 1 -> 3 groups; 0 events waited",
            "  relays: none is running",
        ],
        "",
    )
    assert shown.splitlines() == ["layout 1, order scope topic_key"]


def test_a_change_is_told_step_by_step_beside_its_result() -> None:
    output, said = hookwire("change", "--groups", "webhooks=3", "--why", "more of them", "--json")
    again, _ = hookwire("change", "--groups", "webhooks=3")
    shown, _ = hookwire("show")
    after = json.loads(output)["after"]
    assert (after["number"], after["groups"]["webhooks"]) == (2, 3)
    assert said.startswith("closing 0 leases of webhooks\nlayout 2 is in force; its sinks stood still for ")
    assert again == "layout 2 has these values already; nothing to do\n"
    assert [line.split("  ")[1].split()[0] for line in shown.splitlines()[1:]] == ["webhooks"] * 3


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "nothing to change: give --groups SINK=N or --order-scope"),
        (["--groups", "kafka"], 2, "--groups is SINK=N, such as kafka=8, not 'kafka'"),
        (["--order-scope", "topic"], 2, "--order-scope is topic_key or key, not 'topic'"),
        (["--groups", "webhooks=65"], 2, "the layout was not changed: webhooks=65: a sink has 1 to 64 groups"),
        (["--groups", "pigeon=2"], 2, "the layout was not changed: pigeon: this installation has no such sink"),
        (["--groups", "kafka=2"], 2, "kafka: old producers have to be fenced there; set HOOKWIRE_KAFKA_BOOTSTRAP"),
    ],
    ids=["nothing", "no number", "no scope", "too many", "no sink", "no address"],
)
def test_what_cannot_work_is_refused(words: list[str], code: int, says: str, database_url: str) -> None:
    async def with_kafka() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute("UPDATE hookwire.sinks SET configured = true WHERE name = 'kafka'")
        await connection.close()

    asyncio.run(with_kafka())
    with pytest.raises(CommandFailed) as refused:
        hookwire("change", *words)
    assert (refused.value.code, str(refused.value)[: len(says)]) == (code, says)
