"""The programs beside this file, as processes, and ours in their place."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.reqrep.running import WAIT_SECONDS
from tests.reqrep.test_examples import ENVIRONMENT

HERE = Path(__file__).parent
PROGRAMS = sorted(
    path for path in HERE.glob("*.py") if path.stem not in ("conftest", "harness") and not path.stem.startswith("test_")
)
OURS_OR_GUIDE = ("ours", "guide")


@contextmanager
def ancestor(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that serves; killed at the end."""
    with begun(name, *words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@contextmanager
def begun(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has been started; killed at the end."""
    command = [sys.executable, str(HERE / f"{name}.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(name: str, *words: str) -> list[str]:
    """The lines of a program that ends by itself."""
    with begun(name, *words) as process:
        return process.communicate(timeout=WAIT_SECONDS)[0].splitlines()
