"""Process life: phases stopped one after the other, a drain with an end, a failure that ends everything (SV-04, T9)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runtime.process import Process, Service


@dataclass
class Duty:
    """A service that notes in a shared diary when it was stopped and when it ended."""

    name: str
    diary: list[str]
    ends: asyncio.Event | None = None
    fails: Exception | None = None
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        self.diary.append(f"stop {self.name}")
        self._stopped.set()

    async def run(self) -> None:
        if self.fails is not None:
            raise self.fails
        try:
            await self._stopped.wait()
            if self.ends is not None:
                await self.ends.wait()
            self.diary.append(f"end {self.name}")
        except asyncio.CancelledError:
            self.diary.append(f"cancelled {self.name}")
            raise


def phases(*names: str, diary: list[str], **more: Duty) -> list[list[Service]]:
    return [[more.get(name) or Duty(name, diary)] for name in names]


async def test_phases_stop_one_after_the_other() -> None:
    """What feeds ends before what is fed."""
    diary: list[str] = []
    process = Process(phases("front", "publisher", "relay", diary=diary), 5.0)
    process.stop()

    await process.run()

    assert diary == ["stop front", "end front", "stop publisher", "end publisher", "stop relay", "end relay"]


def test_two_services_of_one_name_are_refused() -> None:
    """A stop would wait in the first one's phase for the other, which is asked to stop later."""
    with pytest.raises(ValueError, match="several services have the name relay"):
        Process([*phases("front", "relay", diary=[]), *phases("relay", diary=[])], 5.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_softly(number: signal.Signals) -> None:
    diary: list[str] = []
    process = Process(phases("front", diary=diary), 5.0)
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)

    await process.run()

    assert diary == ["stop front", "end front"]


async def test_a_second_signal_stops_it_hard() -> None:
    diary: list[str] = []
    endless = Duty("front", diary, ends=asyncio.Event())
    process = Process([[endless], [Duty("relay", diary)]], 3600.0)
    process.stop()
    asyncio.get_running_loop().call_later(0.05, process.stop)

    await process.run()

    assert (diary[0], sorted(diary[1:])) == ("stop front", ["cancelled front", "cancelled relay"])


async def test_a_drain_that_takes_too_long_ends_hard() -> None:
    diary: list[str] = []
    process = Process([[Duty("front", diary, ends=asyncio.Event())]], 0.05)
    process.stop()

    await process.run()

    assert diary == ["stop front", "cancelled front"]


async def test_a_service_that_fails_ends_the_process_loudly() -> None:
    """RL-22."""
    diary: list[str] = []
    process = Process([[Duty("front", diary)], [Duty("relay", diary, fails=RuntimeError("broken"))]], 5.0)

    with pytest.raises(ExceptionGroup) as failed:
        await process.run()

    assert failed.group_contains(RuntimeError, match="broken")
    assert diary == ["cancelled front"]


async def test_stopping_twice_before_the_start_is_a_hard_stop_at_once() -> None:
    diary: list[str] = []
    process = Process([[Duty("front", diary, ends=asyncio.Event())]], 3600.0)
    process.stop()
    process.stop()

    await process.run()

    assert diary[-1] == "cancelled front"


async def test_a_stopping_process_names_the_time_by_which_it_ends() -> None:
    """F08, T9: closing included; the second signal brings it near, and a third changes nothing."""
    ends: list[float] = []
    process = Process([[Duty("front", [], ends=asyncio.Event())]], 3600.0, ends.append)
    for _ in range(4):
        process.stop()

    await process.run()

    assert ends == [3603.0, 3.0]


def cut_off(program: str, act: str) -> tuple[int, bytes]:
    """The exit code and the output of a process that begins so, and hangs then; a cut-off's last act is this one."""
    program = f"""
import time
from runtime.process import end_within, last_act

with last_act(lambda: print("no more", flush=True)):
    pass
with last_act({act}):
    {program}
    time.sleep(60)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=30, check=False, capture_output=True
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_process_that_hangs_is_cut_off() -> None:
    """F08, F09: whatever hangs; here the main thread itself."""
    code, said = cut_off("end_within(60); end_within(0.1)", "lambda: print('a last act', flush=True)")
    assert (code, b"a last act" in said, b"no more" in said, b"cut_off" in said) == (75, True, False, True)


@pytest.mark.parametrize("act", ["lambda: 1 / 0", "lambda: None"])
def test_a_process_is_cut_off_although_its_log_hangs_or_the_last_act_fails(act: str) -> None:
    """A reader of the log that stands still keeps whoever writes to it, and with it all others."""
    held = "import runtime.process; runtime.process._tell_of_it = lambda: time.sleep(60)"
    assert cut_off(f"{held}; end_within(0.1)", act)[0] == 75
