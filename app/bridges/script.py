"""Script: a user's own program, run once per message with the body on its standard input (JB-56).

::

    start ----> running ----> exit 0: done
      |            |--------> other exit, signal: failed
      |            |--------> deadline: SIGTERM to its process group, five seconds later SIGKILL: failed
      '--> failed (not found, not executable, no memory)

A script runs in a session of its own, so that Ctrl-C at the terminal reaches only hookwire and the script can finish.
It gets the message's data in environment variables with fixed names; a message cannot set others, such as PATH.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Script", "ScriptOutcome", "environment_of"]

_TERMINATE_SECONDS = 5.0
_VALUE_BYTES_MAX = 16 * 1024  # one value; Linux takes 128 KiB
_TOTAL_BYTES_MAX = 64 * 1024
_PREFIX = "HOOKWIRE_HEADER_"
_NOT_IN_A_NAME = re.compile(r"[^A-Z0-9]")
_PLAIN_NAMES: Mapping[str, str] = {
    "hookwire-topic": "HOOKWIRE_TOPIC",
    "hookwire-key": "HOOKWIRE_KEY",
    "hookwire-sequence": "HOOKWIRE_SEQUENCE",
}


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    """The result of a run. ``exit_status`` None: it did not start, or did not end by itself. ``reason`` '': success."""

    exit_status: int | None
    seconds: float
    reason: str

    @property
    def done(self) -> bool:
        """Return whether the run succeeded."""
        return self.exit_status == 0


class Script:
    """A program and its arguments; may run several times at once."""

    def __init__(self, command: Sequence[str], *, timeout_seconds: float | None, quiet_stdout: bool = False) -> None:
        """Set the command. ``quiet_stdout``: its output goes to standard error, because standard output is ours."""
        self.killed = False
        self._command = command
        self._timeout_seconds = timeout_seconds
        self._stdout = sys.stderr.fileno() if quiet_stdout else None
        self._running: set[Process] = set()

    async def run(self, body: bytes, variables: Mapping[str, str]) -> ScriptOutcome:
        """Run once; an error of the program is part of the result and is not raised."""
        started = time.monotonic()
        try:
            process = await self._start(body, {**_surroundings(), **variables})
        except OSError as error:
            return ScriptOutcome(None, 0.0, f"cannot be started: {error.strerror}")
        self._running.add(process)
        try:
            reason = await self._finish(process)
        finally:
            self._running.discard(process)
            if process.returncode is None:  # cancelled
                _signal(process, signal.SIGKILL)
        return ScriptOutcome(
            None if reason else process.returncode, time.monotonic() - started, reason or _reason(process)
        )

    async def _start(self, body: bytes, environment: Mapping[str, str]) -> Process:
        # Use a file, not a pipe: a program need not read it, and its own children cannot delay the end.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(body)
            stdin.seek(0)
            return await asyncio.create_subprocess_exec(
                *self._command, stdin=stdin, stdout=self._stdout, env=environment, start_new_session=True
            )

    async def _finish(self, process: Process) -> str:
        """Wait for the end. After the time, end the program and return the reason; return '' if it ended by itself."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await process.wait()
            return ""
        except TimeoutError:
            _signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(_TERMINATE_SECONDS):
                await process.wait()
        except TimeoutError:
            _signal(process, signal.SIGKILL)
            await process.wait()
        return f"stopped after {self._timeout_seconds:g} s"

    def kill(self) -> None:
        """End every run at once."""
        self.killed = True
        for process in self._running:
            _signal(process, signal.SIGKILL)


def environment_of(
    message_id: str | None, routing_key: str | None, content_type: str | None, headers: Mapping[str, object]
) -> dict[str, str]:
    """Return the variables that describe a message.

    HOOKWIRE_EVENT_ID, _TOPIC, _KEY, _SEQUENCE, _CONTENT_TYPE where known, and HOOKWIRE_HEADER_<NAME> for every other
    header: letters and digits in upper case, all else ``_``; CloudEvents attributes as HOOKWIRE_HEADER_CE_<NAME>, with
    any spelling on AMQP (WH-C09). Values that hold a NUL, exceed 16 KiB or 64 KiB together are left out.
    """
    known = {"HOOKWIRE_EVENT_ID": message_id, "HOOKWIRE_TOPIC": routing_key, "HOOKWIRE_CONTENT_TYPE": content_type}
    variables = {name: value for name, value in known.items() if value is not None}
    for name, value in headers.items():
        if name in _PLAIN_NAMES:
            variables[_PLAIN_NAMES[name]] = _text(value)
        elif not name.startswith("hookwire-"):
            variables[_PREFIX + _variable(name)] = _text(value)
    room, fitting = _TOTAL_BYTES_MAX, {}
    for name, value in variables.items():
        size_bytes = len(name) + len(value.encode(errors="surrogateescape"))
        if "\0" not in value and len(value) <= _VALUE_BYTES_MAX and size_bytes <= room:
            room -= size_bytes
            fitting[name] = value
    return fitting


def _surroundings() -> dict[str, str]:
    """Return our own environment without a message's variables. It has such variables if this process is a script
    itself.
    """
    described = {"HOOKWIRE_EVENT_ID", "HOOKWIRE_CONTENT_TYPE", "HOOKWIRE_ATTEMPT", *_PLAIN_NAMES.values()}
    return {name: v for name, v in os.environ.items() if name not in described and not name.startswith(_PREFIX)}


def _variable(name: str) -> str:
    for prefix in ("cloudEvents_", "cloudEvents:"):
        if name.startswith(prefix):
            name = "ce-" + name.removeprefix(prefix)
    return _NOT_IN_A_NAME.sub("_", name.upper())[:128]


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case bytes() | bytearray():
            return value.decode(errors="surrogateescape")
        case datetime():
            return value.isoformat()
        case _:
            return json.dumps(value, default=str)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _reason(process: Process) -> str:
    status = process.returncode
    if status is not None and status < 0:
        return f"ended by {_signal_name(-status)}"
    return f"exit {status}" if status else ""


def _signal_name(number: int) -> str:
    """Return the name of a signal, or its number: real-time signals have no name."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
