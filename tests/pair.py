"""A PostgreSQL with a standby that can take over, for the length of a block."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.servers.postgres import PostgresServer, PostgresStandby


class Pair:
    """Two PostgreSQL servers: ``primary`` takes writes, ``standby`` follows it."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby

    async def switch_over(self) -> None:
        """Stop the primary, promote the standby, and bring the former primary back as a standby."""
        await asyncio.to_thread(self.primary.stop)
        await asyncio.to_thread(self.standby.promote)
        await asyncio.to_thread(self.primary.follow, self.standby)
        self.primary, self.standby = self.standby, self.primary


@contextmanager
def booted_pair(folder: Path, bin_dir: Path) -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="pair-", dir=folder))
    folder.chmod(0o711)
    primary = PostgresServer("one", folder / "one", bin_dir)
    standby = PostgresStandby("two", folder / "two", primary)
    try:
        primary.start()
        standby.start()
        yield Pair(primary, standby)
    finally:
        standby.discard()
        primary.discard()
        shutil.rmtree(folder)
