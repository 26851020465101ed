"""Unit files of systemd in the examples: valid, with commands and options that exist."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app.cli.main import application

EXAMPLES = Path(__file__).parents[2] / "examples"
UNITS = sorted(EXAMPLES.rglob("*.service"))
TIMERS = sorted(EXAMPLES.rglob("*.timer"))


def unit_file(path: Path) -> configparser.ConfigParser:
    """What a unit file says."""
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read(path)
    return parsed


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_exists(unit: Path) -> None:
    """GM-13: `systemd-analyze verify` says nothing, where the machine has it; each option is one of the command."""
    parsed = unit_file(unit)
    words = shlex.split(parsed["Service"]["ExecStart"])
    ours = words[: words.index("--")] if "--" in words else words
    group: Any = get_command(application())
    command = group.commands[ours[2]]
    command = command.commands[ours[3]] if hasattr(command, "commands") else command
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    verify = shutil.which("systemd-analyze")
    said = subprocess.run([verify, "verify", unit], capture_output=True, text=True, check=False) if verify else None

    assert (ours[:2], [word for word in ours if word.startswith("--") and word not in options]) == (
        ["/usr/bin/env", "hookwire"], [],
    )  # fmt: skip
    assert said is None or unit.name not in said.stderr, said


@pytest.mark.parametrize("timer", TIMERS, ids=lambda timer: timer.stem)
def test_a_timer_starts_a_unit_that_exists_every_night(timer: Path) -> None:
    """GP-14: the unit runs once, and is not started at boot."""
    parsed, unit = unit_file(timer), unit_file(timer.with_suffix(".service"))
    verify = shutil.which("systemd-analyze")
    command = [verify, "calendar", parsed["Timer"]["OnCalendar"]]
    said = subprocess.run(command, capture_output=True, text=True, check=False) if verify else None

    assert (parsed["Timer"]["OnCalendar"][:5], unit["Service"]["Type"], "Install" in unit) == (
        "*-*-*",
        "oneshot",
        False,
    )
    assert said is None or said.returncode == 0, said
