"""Public clients in environments of their own, of pinned versions. A package that cannot be fetched fails its tests."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
LINE_SECONDS = 60.0
# django-push 1.1 runs on Django before 4. Google's publisher is a program for Python 2, which fissix converts.
PYTHON_PACKAGES = (
    "Django==3.2.25", "django-push==1.1", "requests==2.32.3", "PubSubHubbub_Publisher==1.0", "fissix==24.4.24",
    "setuptools==75.6.0",
)  # fmt: skip
NPM_PACKAGES = ("pubsubhubbub@1.0.2",)


def python_environment(folder: Path) -> Path:
    """Make a virtual environment with the pinned packages; return its Python."""
    python = folder / "bin" / "python"
    _run("python -m venv", [sys.executable, "-m", "venv", str(folder)])
    _run("pip install", [str(python), "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES])
    (published,) = folder.glob("lib/*/site-packages/pubsubhubbub_publish.py")
    _run("fissix", [str(python), "-m", "fissix", "--write", "--nobackups", str(published)])
    return python


def npm_folder(folder: Path) -> Path:
    """Install the pinned packages of npm; return the folder, with our programs in it."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.fail("Node or npm is missing: install Node >= 20 and npm (Debian: nodejs npm).", pytrace=False)
    folder.mkdir()
    quiet = ("--silent", "--no-audit", "--no-fund")
    _run("npm install", ["npm", "install", *quiet, "--prefix", str(folder), *NPM_PACKAGES])
    for program in PROGRAMS.glob("*.js"):
        shutil.copy(program, folder)
    return folder


def _run(what: str, command: Sequence[str]) -> None:
    """Fail with one sentence and what the program printed last."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()[-600:]
        pytest.fail(f"{what} ended with {ended.returncode}; are the pinned packages reachable? {said}", pytrace=False)


class Lines:
    """The lines of standard output of a client that runs."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next(self, seconds_max: float = LINE_SECONDS) -> str:
        """Return the next line. Raise TimeoutError when it does not come in time."""
        async with asyncio.timeout(seconds_max):
            return (await self._reader.readline()).decode().rstrip("\n")


@asynccontextmanager
async def printing(*command: str | Path) -> AsyncIterator[Lines]:
    """Run a client until the end of the block."""
    process = await asyncio.create_subprocess_exec(*map(str, command), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield Lines(process.stdout)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def printed(*command: str | Path) -> tuple[int | None, str]:
    """Return exit code and output of a client that ends by itself."""
    process = await asyncio.create_subprocess_exec(*map(str, command), stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(LINE_SECONDS):
        output, _ = await process.communicate()
    return process.returncode, output.decode()
