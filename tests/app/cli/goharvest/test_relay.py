"""`hookwire relay --compat`: what is refused before anything is connected, and the report (RO-12, RG-09, RK-22)."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import application
from app.settings.settings import SettingsRefused

GOOD = "harvest:\n  outboxTable: shop.outbox\n  limits: {sendBuffer: 10}\n"


def relay(folder: Path, text: str, *words: str) -> tuple[int, str]:
    """Runs the command on a file; returns exit code and output."""
    (folder / "reaper.yaml").write_text(text)
    result = CliRunner().invoke(application("relay"), ["relay", "--compat", str(folder / "reaper.yaml"), *words])
    if isinstance(result.exception, SettingsRefused):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_report_is_the_commands_result(tmp_path: Path) -> None:
    """RO-12."""
    code, output = relay(tmp_path, GOOD, "--partitioner", "crc32", "--check", "--json")
    verdicts = [(line["key"], line["verdict"]) for line in map(json.loads, output.splitlines())]
    assert (code, verdicts) == (0, [("harvest.outboxTable", "taken"), ("harvest.limits.sendBuffer", "no meaning")])


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        (GOOD, [], "--partitioner crc32"),
        (GOOD, ["--partitioner", "random"], "crc32 or murmur2, not 'random'"),
        ("harvest:\n  wrong: 1\n", ["--partitioner", "crc32"], "1 of its keys are refused"),
        ("harvest:\n  outboxTable: 'a; b'\n", ["--partitioner", "crc32"], "the outbox table"),
        (
            "harvest:\n  baseKafkaConfig: {security.protocol: ssl, sasl.username: u}\n",
            ["--partitioner", "crc32"],
            "SASL",
        ),
    ],
    ids=["no partitioner", "unknown partitioner", "refused key", "no table's name", "half of a login"],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path, text: str, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RK-22."""
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", str(tmp_path))
    with pytest.raises(SettingsRefused, match=says):
        relay(tmp_path, text, *words)


@pytest.mark.parametrize("words", [["--check"], ["--partitioner", "crc32"], ["--compat-table", "outbox", "--check"]])
def test_the_flags_of_compat_mode_belong_to_it(words: list[str]) -> None:
    result = CliRunner().invoke(application("relay"), ["relay", *words])
    assert isinstance(result.exception, SettingsRefused)


def test_the_fast_mode_is_not_taken_for_a_table_in_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be passed over, and whoever set it would wait for what does not come."""
    monkeypatch.setenv("HOOKWIRE_OUTBOX_MODE", "fast")
    with pytest.raises(SettingsRefused, match="HOOKWIRE_OUTBOX_MODE=fast is for an outbox"):
        relay(tmp_path, GOOD, "--partitioner", "crc32")


def test_an_election_over_kafka_is_refused_for_goharvests_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FM-08: it was accepted without effect."""
    monkeypatch.setenv("HOOKWIRE_KAFKA_ELECTION", "neli")
    with pytest.raises(SettingsRefused, match="HOOKWIRE_KAFKA_ELECTION=lease"):
        relay(tmp_path, GOOD, "--partitioner", "crc32")


MARIA = "mysql://u:hush@127.0.0.1:1/shop"


def test_a_reaper_yaml_does_not_go_with_an_outbox_in_mariadb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKWIRE_OUTBOX_URL", MARIA)
    with pytest.raises(SettingsRefused, match="use --compat-table"):
        relay(tmp_path, GOOD, "--partitioner", "crc32")


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "hookwire-server.mariadb"),
        ({"HOOKWIRE_OUTBOX_URL": "mysql://u:hush@127.0.0.1:1"}, "HOOKWIRE_OUTBOX_URL must be mysql://"),
        ({"HOOKWIRE_OUTBOX_TLS_CA": "ca.pem"}, "HOOKWIRE_OUTBOX_TLS is off"),
    ],
    ids=["no driver", "no database", "files without TLS"],
)
def test_an_outbox_in_mariadb_that_cannot_work_is_refused(
    variables: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiomysql", None)
    for name, value in {
        "HOOKWIRE_DATA_DIR": str(tmp_path), "HOOKWIRE_OUTBOX_URL": MARIA,
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", **variables,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(application("relay"), ["relay", "--compat-table", "outbox"])
    assert isinstance(result.exception, SettingsRefused), result.output
    assert re.search(says, str(result.exception)), result.exception
    assert "hush" not in str(result.exception)
