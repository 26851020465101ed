"""Runs the README's commands of "From the image alone", for a newcomer who has the image, curl and nothing else.

No Docker engine is there: :mod:`scripts.images.container` does what `docker run` and `docker exec` ask for. A published
port is reached at the container's own address.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from scripts import newcomer
from scripts.images.container import Container, running
from scripts.images.image import Image
from scripts.images.network import Network, open_network

__all__ = ["COMMANDS_MAX", "commands", "walk"]

COMMANDS_MAX: Final = 5
_SECONDS_MAX: Final = 180.0


def commands() -> list[str]:
    """Return the commands of the README, a line each."""
    return newcomer.commands("From the image alone")


def walk(image: Image) -> str:
    """Run the commands; return what the command that was left running prints of the event.

    Raises ``CalledProcessError`` for a command that fails, and ``RuntimeError`` for one that ends without a word.
    """
    with ExitStack() as stack:
        machine = _Machine(image, stack)
        for line in commands():
            if (found := re.fullmatch(r"export (\w+)=\$\((.*)\)", line)) is not None:
                machine.variables[found[1]] = machine.run(found[2])
            elif newcomer.LEFT_RUNNING in line:
                machine.leave_running(line.partition("#")[0])
            else:
                machine.run(line)
        return machine.line_with("orders.created")


class _Machine:
    """The newcomer's machine: variables of the shell, and the one container that was started."""

    def __init__(self, image: Image, stack: ExitStack) -> None:
        self.variables: dict[str, str] = {}
        self._image, self._stack = image, stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._folder.chmod(0o711)
        self._network: Network = stack.enter_context(open_network())
        self._container: Container | None = None
        self._left: subprocess.Popen[str] | None = None

    def run(self, line: str) -> str:
        """Run a command to its end; return what it prints."""
        line = self._expanded(line)
        if line.startswith("docker run "):
            return self._run_image(_options().parse_args(shlex.split(line)[2:]))
        words = self._entered(line) if line.startswith("docker exec ") else ["/bin/sh", "-c", self._outside(line)]
        ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=_SECONDS_MAX)
        return ended.stdout.strip()

    def leave_running(self, line: str) -> None:
        """Start a command in the container, and go on."""
        words = self._entered(self._expanded(line))
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._left = self._stack.enter_context(_ended_at_last(process))
        self.line_with("listening")

    def line_with(self, words: str) -> str:
        """Return the next line, of the command that was left running, that has these words."""
        assert self._left is not None
        assert self._left.stdout is not None
        assert self._container is not None
        timer = threading.Timer(_SECONDS_MAX, os.kill, (self._container.pid, signal.SIGKILL))
        timer.start()
        try:
            for line in self._left.stdout:
                if words in line:
                    return line.strip()
        finally:
            timer.cancel()
        raise RuntimeError(f"no line with {words!r}: {self._container.log.read_text()[-2000:]}")

    def _run_image(self, asked: argparse.Namespace) -> str:
        given = self._named(asked.env)
        volume, log = self._folder / "volume", self._folder / ("hub.log" if asked.detach else "once.log")
        volume.mkdir(exist_ok=True)
        network = self._network if asked.detach else None
        context = running(self._image, volume, log, *asked.words, network=network, environment=given)
        if asked.detach:
            self._container = self._stack.enter_context(context)
            return ""
        with context as container:
            code = container.process.wait(timeout=_SECONDS_MAX)
        if code != 0:
            raise subprocess.CalledProcessError(code, asked.words, log.read_text())
        return log.read_text().strip()

    def _entered(self, line: str) -> list[str]:
        """Return the command of this machine for a `docker exec`."""
        assert self._container is not None, "docker run comes first"
        asked = _options().parse_args(shlex.split(line)[2:])
        return self._container.command(*asked.words, environment=self._named(asked.env))

    def _named(self, given: list[str]) -> dict[str, str]:
        """Return the variables of `--env NAME=VALUE`, and of `--env NAME` from the shell."""
        return {one.partition("=")[0]: one.partition("=")[2] or self.variables[one] for one in given}

    def _expanded(self, line: str) -> str:
        """Return the line with the shell's variables in their places."""
        for name, value in self.variables.items():
            line = line.replace(f"${name}", value)
        return line

    def _outside(self, line: str) -> str:
        return line.replace("http://localhost:", f"http://{self._network.address}:")


def _options() -> argparse.ArgumentParser:
    """Read the options that the README uses; ``target`` is the image or the container."""
    parser = argparse.ArgumentParser(prog="docker")
    for switch in ("--rm", "--detach"):
        parser.add_argument(switch, action="store_true")
    for option in ("--name", "--publish", "--volume"):
        parser.add_argument(option)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("target")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return parser


@contextmanager
def _ended_at_last(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()
