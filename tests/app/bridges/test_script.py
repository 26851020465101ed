"""A program per message: what it is told, how it ends (JB-56)."""

import asyncio
import fcntl
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.bridges.script import Script, ScriptOutcome, environment_of


def script(folder: Path, text: str) -> list[str]:
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


async def ran(
    command: list[str], body: bytes = b"", timeout_seconds: float | None = None, **variables: str
) -> ScriptOutcome:
    outcome = await Script(command, timeout_seconds=timeout_seconds).run(body, variables)
    return ScriptOutcome(outcome.exit_status, 0.0, outcome.reason)


def test_a_message_is_described_by_variables_of_our_own_names():
    headers = {
        "hookwire-topic": "git.push", "hookwire-key": "site", "hookwire-sequence": 7, "hookwire-term": 3,
        "hookwire-event-id": "evt_7", "cloudEvents_subject": "refs/heads/zürich", "x-Trace.id": "1", "blob": b"b",
        "at": datetime(2025, 1, 1, tzinfo=UTC), "flag": True, "table": {"a": 1},
    }  # fmt: skip
    assert environment_of("evt_7", "routed", "text/plain", headers) == {
        "HOOKWIRE_EVENT_ID": "evt_7", "HOOKWIRE_TOPIC": "git.push", "HOOKWIRE_KEY": "site", "HOOKWIRE_SEQUENCE": "7",
        "HOOKWIRE_CONTENT_TYPE": "text/plain", "HOOKWIRE_HEADER_CE_SUBJECT": "refs/heads/zürich",
        "HOOKWIRE_HEADER_X_TRACE_ID": "1", "HOOKWIRE_HEADER_BLOB": "b", "HOOKWIRE_HEADER_TABLE": '{"a": 1}',
        "HOOKWIRE_HEADER_AT": "2025-01-01T00:00:00+00:00", "HOOKWIRE_HEADER_FLAG": "true",
    }  # fmt: skip


def test_a_strangers_message_has_its_routing_key_for_a_topic_and_nothing_that_is_unknown():
    assert environment_of(None, "a.b", None, {}) == {"HOOKWIRE_TOPIC": "a.b"}


def test_no_header_becomes_a_variable_that_means_something_to_a_program():
    """B-54: PATH, LD_PRELOAD, a newline or an equals sign in a name."""
    headers = {"PATH": "/evil", "LD_PRELOAD": "x.so", "a=b\n": "1", "nul": "a\0b", "big": "x" * 17_000, "": "empty"}
    assert environment_of(None, None, None, headers) == {
        "HOOKWIRE_HEADER_PATH": "/evil", "HOOKWIRE_HEADER_LD_PRELOAD": "x.so", "HOOKWIRE_HEADER_A_B_": "1",
        "HOOKWIRE_HEADER_": "empty",
    }  # fmt: skip


def test_all_variables_together_stay_below_what_a_program_can_be_given():
    variables = environment_of(None, None, None, {f"x{number}": "y" * 16_000 for number in range(50)})
    assert sorted(variables) == [f"HOOKWIRE_HEADER_X{number}" for number in range(4)]


async def test_a_program_gets_the_body_byte_for_byte_and_the_variables(tmp_path: Path):
    command = script(tmp_path, f'cat > {tmp_path}/body; printf %s "$HOOKWIRE_KEY" > {tmp_path}/key')
    body = bytes(range(256)) * 4096
    assert await ran(command, body, HOOKWIRE_KEY="a b'c") == ScriptOutcome(0, 0.0, "")
    assert ((tmp_path / "body").read_bytes(), (tmp_path / "key").read_text()) == (body, "a b'c")


async def test_what_describes_another_message_is_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOOKWIRE_KEY", "outer")
    monkeypatch.setenv("HOOKWIRE_HEADER_X", "outer")
    monkeypatch.setenv("HOOKWIRE_URL", "kept")
    await ran(script(tmp_path, f"env | grep ^HOOKWIRE_ | grep -v ^HOOKWIRE_TEST_ > {tmp_path}/seen"))
    assert (tmp_path / "seen").read_text() == "HOOKWIRE_URL=kept\n"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("exit 0", ScriptOutcome(0, 0.0, "")),
        ("exit 7", ScriptOutcome(7, 0.0, "exit 7")),
        ("kill -TERM $$", ScriptOutcome(-15, 0.0, "ended by SIGTERM")),
        ("kill -35 $$", ScriptOutcome(-35, 0.0, "ended by signal 35")),
    ],
)
async def test_the_exit_status_is_the_verdict(tmp_path: Path, text: str, outcome: ScriptOutcome):
    assert await ran(script(tmp_path, text), b"x" * 10_000_000) == outcome  # none of them reads its input


async def test_a_program_that_cannot_be_started_has_failed(tmp_path: Path):
    assert await ran([str(tmp_path / "nobody")]) == ScriptOutcome(
        None, 0.0, "cannot be started: No such file or directory"
    )


async def test_what_a_program_leaves_running_does_not_hold_us_up(tmp_path: Path):
    """It inherits the standard input and never reads it."""
    command = script(tmp_path, f"exec 3<&0; sleep 60 <&3 & echo $! > {tmp_path}/pid; exit 0")
    async with asyncio.timeout(30):
        assert await ran(command, b"x" * 10_000_000) == ScriptOutcome(0, 0.0, "")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


async def test_a_run_beyond_its_time_is_ended_with_all_it_started(tmp_path: Path):
    command = script(tmp_path, f"exec 9>{tmp_path}/lock; flock 9; sleep 60 & sleep 60")
    assert await ran(command, timeout_seconds=0.5) == ScriptOutcome(None, 0.0, "stopped after 0.5 s")
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # is free when nobody of them lives


async def test_a_run_that_ignores_the_request_to_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.bridges.script._TERMINATE_SECONDS", 0.2)
    command = script(tmp_path, "trap '' TERM; sleep 60 & wait; sleep 60")
    assert await ran(command, timeout_seconds=0.5) == ScriptOutcome(None, 0.0, "stopped after 0.5 s")
