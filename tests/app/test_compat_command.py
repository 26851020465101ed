"""`hookwire relay --compat`: what is refused before anything is connected, and the report (RO-12, RG-09, RK-22)."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import application
from app.settings import SettingsRefused

GOOD = "harvest:\n  outboxTable: shop.outbox\n  limits: {sendBuffer: 10}\n"


def relay(folder: Path, text: str, *words: str) -> tuple[int, str]:
    """Runs the command on a file; returns exit code and output."""
    (folder / "reaper.yaml").write_text(text)
    result = CliRunner().invoke(application(), ["relay", "--compat", str(folder / "reaper.yaml"), *words])
    if isinstance(result.exception, SettingsRefused):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_report_is_the_commands_result(tmp_path: Path) -> None:
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
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", str(tmp_path))
    with pytest.raises(SettingsRefused, match=says):
        relay(tmp_path, text, *words)


def test_the_flags_of_compat_mode_belong_to_it() -> None:
    result = CliRunner().invoke(application(), ["relay", "--check"])
    assert isinstance(result.exception, SettingsRefused)
