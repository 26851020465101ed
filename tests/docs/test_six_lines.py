"""The first lines of the README publish and receive, as printed; they run as subprocesses of a user."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from hookwire.testing import Event, deliver_async
from tests.app.conftest import RunHub, running_hub

__all__ = ["running_hub"]

ROOT = Path(__file__).parents[2]
CLIENT, RECEIVER = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[:2]
SECRET = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
LINE = "orders.created ada {'order': 1}\n"


async def test_six_lines_publish_and_receive(running_hub: RunHub) -> None:
    assert len([line for line in CLIENT.splitlines() if line]) == 6
    async with running_hub(roles=("api", "relay", "deliver")) as hub:
        program = CLIENT.replace("http://127.0.0.1:8080", hub.url)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-u", "-c", program, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(60):
            printed = await process.stdout.readline()
        process.terminate()
        await process.wait()

    assert printed.decode() == LINE


async def test_the_receiver_of_the_readme_takes_a_delivery(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(RECEIVER.replace("whsec_...", SECRET), names)
    event = Event("evt_1", "orders.created", "ada", content_type="application/json", body=b'{"order": 1}')
    answers = [await deliver_async(names["app"], event, SECRET, "/hook") for _ in "12"]

    assert ([answer.status for answer in answers], capsys.readouterr().out) == ([204, 204], LINE)
