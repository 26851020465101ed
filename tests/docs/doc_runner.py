"""Run one page of documentation: its marked code blocks run in order against a hub of its own.

A block takes part when its fence says so (the marker does not show on the rendered page)::

    ```sh test                run by bash
    ```sh test background     started, and ended with the page
    ```sql test               given to the psql command that the hub printed
    ```python test file=x.py  written to x.py

and comments behind it say what must come of it, each a regular expression or, for the last two, plain text::

    <!-- expect: ... -->      the output has it
    <!-- until: ... -->       the block is repeated until its output has it
    <!-- background: ... -->  what runs in the background prints it
    <!-- never: ... -->       it does not print this until the end of the page

A page shows one address, one id, one secret; a run has others. `127.0.0.1:8080` becomes the hub's address,
`127.0.0.1:9094` Kafka's, `db.example/shop` the hub's database, and port 9000 a free one. The ids and the secret that
stand for the reader's own become the last ones that a block printed.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, urlencode

import httpx

from tests.waiting import block_poll

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 60.0
BLOCK_SECONDS_MAX = 60
DATABASE = "postgresql://hookwire:secret@db.example/shop"
"""The reader's own database on a page; the hub's in a run."""

_FENCE = re.compile(r"^```([a-z]+) test([^\n]*)\n(.*?)^```\n((?:<!-- [a-z]+: .*? -->\n)*)", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"<!-- ([a-z]+): (.*?) -->")
# What a page says for what the reader sees: the placeholder, and how to find the reader's own in an output.
_PLACEHOLDERS = {
    "evt_k3v7q2ha_1": re.compile(r"evt_[a-z2-7]{8}_[0-9]+"),
    "sub_3f1c0a9be2d45c7780aa": re.compile(r"sub_[0-9a-f]{20,}"),
    "dlv_42_7": re.compile(r"dlv_[0-9]+_[0-9]+"),
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": re.compile(r"whsec_[A-Za-z0-9+/=]+"),
}


class BlockFailed(AssertionError):
    """A block did not do what its page says; the text shows both."""


class BlockOverdue(TimeoutError):
    """What the page says did not come true in time; the text shows both."""


@dataclass(frozen=True)
class Block:
    """One marked code block; ``line`` is where it begins in its page."""

    language: str
    options: str
    text: str
    line: int
    directives: tuple[tuple[str, str], ...]


@dataclass
class Hub:
    """A running hub: where its API is, and the psql command that reaches its database."""

    address: str
    psql: list[str]

    @property
    def database_url(self) -> str:
        """The same database as a URL: psql's options are -h, -p, -U and -d, or a URL."""
        if (given := next((word for word in self.psql if word.startswith("postgresql://")), None)) is not None:
            return given
        options = dict(zip(self.psql[1::2], self.psql[2::2], strict=False))
        query = urlencode({"host": options["-h"], "port": options["-p"]})
        return f"postgresql://{quote(options['-U'])}@/{quote(options['-d'])}?{query}"


@dataclass
class DocRunner:
    """Runs the blocks of one page, and keeps what they printed."""

    hub: Hub
    folder: Path
    callback_port: int
    kafka: str = ""
    values: dict[str, str] = field(default_factory=dict)
    background: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)
    never: list[str] = field(default_factory=list)

    def run(self, block: Block) -> None:
        """Run a block and hold it to what stands behind it."""
        text = self._with_values(block.text)
        if block.options.startswith(" file="):
            (self.folder / block.options.removeprefix(" file=")).write_text(text)
            return
        if "background" in block.options:
            self._start(text)
        directives = dict(block.directives)
        output = "" if "background" in block.options else self._output(block, text)
        if "until" in directives:
            output = self._repeat(block, text, directives["until"], output)
        if "expect" in directives and not re.search(directives["expect"], output, re.DOTALL):
            raise BlockFailed(f"line {block.line}: expected {directives['expect']!r} in\n{output}")
        if "background" in directives:
            self._await_background(block, self._with_values(directives["background"]))
        if "never" in directives:
            self.never.append(directives["never"])

    def finish(self) -> None:
        """What must never have been printed was not."""
        printed = self._printed()
        for text in self.never:
            if text in printed:
                raise BlockFailed(f"{text!r} must not be printed:\n{printed}")

    def end_background(self) -> None:
        """End what the page started."""
        for child, _ in self.background:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _with_values(self, text: str) -> str:
        port = str(self.callback_port)
        text = text.replace("127.0.0.1:9094", self.kafka or "127.0.0.1:9094")
        if DATABASE in text:
            text = text.replace(DATABASE, self.hub.database_url)
        text = text.replace("127.0.0.1:8080", self.hub.address).replace("127.0.0.1:9000", f"127.0.0.1:{port}")
        text = re.sub(r"\b9000\b", port, text).replace("receiver.py --secret", f"receiver.py --port {port} --secret")
        for placeholder, value in self.values.items():
            text = text.replace(placeholder, value)
        return text

    def _output(self, block: Block, text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", text]
        if block.language == "sql":
            command = [*self.hub.psql, "--no-psqlrc", "--quiet", "-t", "--no-align", "--set=ON_ERROR_STOP=1"]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment(), input=text if block.language == "sql" else "",
            capture_output=True, text=True, timeout=BLOCK_SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise BlockFailed(f"line {block.line}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        for placeholder, pattern in _PLACEHOLDERS.items():
            if found := pattern.findall(done.stdout):
                self.values[placeholder] = found[-1]
        return done.stdout

    def _repeat(self, block: Block, text: str, pattern: str, output: str) -> str:
        deadline = time.monotonic() + WAIT_SECONDS
        while not re.search(pattern, output, re.DOTALL):
            if time.monotonic() > deadline:
                raise BlockOverdue(f"line {block.line}: never {pattern!r}, last\n{output}")
            block_poll()
            output = self._output(block, text)
        return output

    def _start(self, text: str) -> None:
        log = self.folder / f"background-{len(self.background)}.log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                ["bash", "-c", f"exec {text}"], cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.background.append((child, log))

    def _await_background(self, block: Block, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self._printed():
            if time.monotonic() > deadline:
                raise BlockOverdue(f"line {block.line}: nothing in the background printed {text!r}\n{self._printed()}")
            block_poll()

    def _printed(self) -> str:
        return "".join(log.read_text(errors="replace") for _, log in self.background)

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # A command that works on the database itself finds the hub's own, and never the account's.
        hub = {"HOOKWIRE_PUBLIC_URL": f"http://{self.hub.address}", "HOOKWIRE_DATA_DIR": str(self.folder / "data")}
        return {**os.environ, "PATH": path, **hub}


def blocks_of(page: Path) -> list[Block]:
    """The marked blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(
            match[1], match[2].rstrip(), match[3], text.count("\n", 0, match.start()) + 1,
            tuple(_DIRECTIVE.findall(match[4])),
        )
        for match in _FENCE.finditer(text)
    ]  # fmt: skip


def _is_ready(port: int) -> bool:
    """Return whether all routes are there. A reader types more slowly than they are loaded."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False, timeout=10).json()
    except httpx.TransportError:
        return False
    return bool(answer["status"] != "starting")


@contextmanager
def running_hub(folder: Path, port: int, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[Hub]:
    """`hookwire serve` on an embedded database in this folder, as `make run` starts it, with these settings."""
    log_path = folder / "hub.log"
    environment = {"HOOKWIRE_DATA_DIR": str(folder / "data"), "HOOKWIRE_LISTEN": f"127.0.0.1:{port}"}
    with log_path.open("wb") as log:
        child = subprocess.Popen(
            [Path(sys.executable).with_name("hookwire"), "serve"], cwd=folder,
            env={**os.environ, **environment, **settings}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while "  database  " not in (said := log_path.read_text()) or not _is_ready(port):
            if child.poll() is not None:
                raise BlockFailed(f"the hub did not start:\n{said}")
            if time.monotonic() > deadline:
                raise BlockOverdue(f"the hub does not say that it runs, or is not ready:\n{said}")
            block_poll()
        line = next(line for line in said.splitlines() if line.startswith("  database  "))
        yield Hub(f"127.0.0.1:{port}", shlex.split(line)[1:])
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
