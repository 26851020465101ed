"""No service outlives the tests that began it, however they end."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.process_pool import ProcessPool
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0

# Each service reads its settings from a pipe, which the test holds open: it waits there, and never ends by itself.
OWNER = """
import asyncio, sys
from pathlib import Path
from app.chaos.child import Child
from tests.faults.conftest import spawn

async def begin(folder, name):
    child = Child(name, folder, {}, command=("serve", "--config", str(folder / name)))
    child.environment.update({"ANY": "thing"} if name == "from nothing" else {})
    await child.start(wait=False)

async def main(folder, names):
    Child._spawn = spawn
    await asyncio.gather(*(begin(folder, name) for name in names))
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
"""


class Settings:
    """The end of a pipe that a service reads its settings from."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = -1

    def is_read(self) -> bool:
        """Whether the service has come to it; from then on the pipe is held open."""
        with suppress(OSError):
            self._end = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
        return self._end >= 0

    def is_left(self) -> bool:
        """Whether the service is gone."""
        poll = select.poll()
        poll.register(self._end, select.POLLERR)
        return bool(poll.poll(0))

    def close(self) -> None:
        """A service that is left over ends by what it reads."""
        if self._end >= 0:
            with suppress(BrokenPipeError):
                os.write(self._end, b"no settings")
            os.close(self._end)


@contextmanager
def settings_of(folder: Path, names: Sequence[str]) -> Iterator[list[Settings]]:
    for name in names:
        os.mkfifo(folder / name)
    found = [Settings(folder / name) for name in names]
    try:
        yield found
    finally:
        for one in found:
            one.close()


@pytest.mark.parametrize(
    ("killed", "names"), [("test process", ["forked", "from nothing"]), ("pool", ["forked"])],
    ids=["test process", "pool"],
)  # fmt: skip
async def test_no_service_outlives_the_process_that_started_it(killed: str, names: list[str], tmp_path: Path) -> None:
    """Else it would work on, hold ports, and load the machine beside the next run."""
    with settings_of(tmp_path, names) as settings:
        owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, tmp_path, *names, cwd=ROOT)
        try:
            for one in settings:
                await until(one.is_read, DEADLINE_SECONDS)
            os.kill(owner.pid if killed == "test process" else pool_of(owner.pid), signal.SIGKILL)
            for one in settings:
                await until(one.is_left, DEADLINE_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                owner.kill()
            await owner.wait()


def pool_of(owner: int) -> int:
    [pool] = [one.pid for one in psutil.Process(owner).children() if "tests.faults.process_pool" in one.cmdline()]
    return pool


async def test_a_process_pool_that_was_killed_is_begun_anew(tmp_path: Path) -> None:
    """For lack of memory the kernel ended one, and each later test of its process failed."""
    pool, codes = ProcessPool(), []
    with (tmp_path / "said").open("wb") as log:
        for _ in range(2):
            known = set(psutil.Process().children())
            child = await pool.fork(None, ["--version"], tmp_path, dict(os.environ), log)
            codes.append(await child.wait())
            for begun in set(psutil.Process().children()) - known:
                begun.kill()
                begun.wait()
    assert (codes, (tmp_path / "said").read_text().count("hookwire")) == ([0, 0], 2)
