"""Newcomer: runs the commands of the README's part "From Python alone" in an empty environment, and counts them.

The wheels of dist/ take the place of an index; only third parties come from the registry that pip uses. Nothing of the
checkout is found. The run ends well when the application of the README prints the event, verified.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from runtime.port import free_port

__all__ = ["COMMANDS_MAX", "LEFT_RUNNING", "LINE", "application", "commands", "walk"]

_ROOT: Final = Path(__file__).parents[1]
_README: Final = _ROOT / "README.md"
_SECONDS_MAX: Final = 900.0
LEFT_RUNNING: Final = "# leave it running"
COMMANDS_MAX: Final = 6
LINE: Final = "orders.created ada {'order': 1}"


def commands(title: str = "From Python alone") -> list[str]:
    """Return the commands of this part of the README, a line each."""
    part = _README.read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line]


def application() -> str:
    """Return the README's application that receives, its second program in Python."""
    second: str = re.findall(r"^```python\n(.*?)^```", _README.read_text(), re.MULTILINE | re.DOTALL)[1]
    return second


def walk(folder: Path, python: str, dist: Path) -> str:
    """Run the commands in a folder; return the line that the application prints for the event.

    Raises ``CalledProcessError`` for a command that fails, and ``RuntimeError`` if a program ends or says nothing.
    """
    hub, app = str(free_port()), str(free_port())
    (folder / "dist").symlink_to(dist)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKWIRE_", "PYTHON"))}
    own = {"HOOKWIRE_LISTEN": f"127.0.0.1:{hub}", "HOOKWIRE_DATA_DIR": str(folder / "data"), "PYTHONUNBUFFERED": "1"}
    with ExitStack() as stack:
        running: list[_Running] = []
        for command in commands():
            words = command.partition("#")[0].strip().replace("8000", app).replace("python3 ", f"{python} ")
            if LEFT_RUNNING in command:
                running.append(stack.enter_context(_Running(words, folder, kept | own)))
                running[-1].line_with("://127.0.0.1:")  # both say where they are, as soon as they answer
                continue
            printed = _output(words, folder, kept | own)
            if (secret := re.search(r"whsec_\S+", printed)) is not None:
                (folder / "app.py").write_text(application().replace("whsec_...", secret[0]))
        return running[-1].line_with("orders.created")


class _Running:
    """A command that goes on, and what it prints."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._process = subprocess.Popen(
            shlex.split(command), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def line_with(self, words: str) -> str:
        """Return the next line that has these words."""
        timer = threading.Timer(_SECONDS_MAX, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None
            said = []
            for line in self._process.stdout:
                said.append(line)
                if words in line:
                    return line.strip()
        finally:
            timer.cancel()
        raise RuntimeError(f"{self._command} ended without {words!r}: {''.join(said)[-1000:]}")


def _output(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    ended = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True,
        timeout=_SECONDS_MAX,
    )  # fmt: skip
    return ended.stdout
