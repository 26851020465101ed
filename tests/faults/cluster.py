"""Three PostgreSQL servers that fail over: standbys stream through proxies, and a name leads to the primary.

::

    hub ---name---> one, the primary <---link--- two
                         ^---------------link--- three

A standby always connects to its own link. So a failover moves the links and the name, and no server's configuration.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import asyncpg

from scripts.servers.postgres import PostgresServer
from tests.faults.proxy import Proxy, proxied
from tests.waiting import lasts, until

NAMES = ("one", "two", "three")
REQUIRED = "names:one,two,three"
"""The standby fence that holds whichever server is promoted."""
Loss = Literal["killed", "stopped", "cut off"]
_LIST = "ANY 1 (one, two, three)"
_STREAMING = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
"""How many commits wait for a standby."""


class Member(PostgresServer):
    """A server of the cluster. It is made empty, or as a copy of another one."""

    def __init__(
        self, name: str, folder: Path, bin_dir: Path, link_port: int, source: PostgresServer | None = None
    ) -> None:
        super().__init__(name, folder, bin_dir)
        self._link_port = link_port
        self._source = source

    def _fill(self, draft: Path) -> None:
        if self._source is None:
            super()._fill(draft)
            with (draft / "postgresql.conf").open("a") as configuration:
                # In the file, for the recovery that pg_rewind itself runs: it reads back to the last common checkpoint.
                configuration.write("wal_keep_size = '256MB'\n")
            return
        source = f"host=127.0.0.1 port={self._source.port} user=postgres"
        self._run("pg_basebackup", "-D", str(draft), "-d", source, "-R", "-X", "stream", "-c", "fast", "-N")

    def _command(self) -> list[str]:
        way = f"primary_conninfo=host=127.0.0.1 port={self._link_port} user=postgres"
        return [*super()._command(), "-c", "wal_log_hints=on", "-c", way]


class Cluster:
    """The servers, with what a manager does. ``name`` and ``links`` are proxies, the links by the standby's name."""

    def __init__(self, members: dict[str, Member], name: Proxy, links: dict[str, Proxy]) -> None:
        self.members = members
        self.primary = members["one"]
        self.name = name
        self.links = links

    @property
    def url(self) -> str:
        """The database's URL by the name."""
        return f"postgresql://postgres@127.0.0.1:{self.name.port}/postgres"

    @property
    def standbys(self) -> list[Member]:
        """All but the primary."""
        return [member for member in self.members.values() if member is not self.primary]

    @asynccontextmanager
    async def asking(self, member: Member | None = None) -> AsyncIterator[asyncpg.Connection]:
        """A session on a server, the primary by default, that waits for no standby."""
        at = member or self.primary
        sql = await asyncpg.connect(at.url, server_settings={"synchronous_commit": "local"})
        try:
            yield sql
        finally:
            sql.terminate()

    async def streams(self) -> None:
        """Set the list of synchronous standbys, and wait until both stream."""
        async with self.asking() as sql:
            await self._set_list(sql, _LIST)
            await until(lambda: self._both(sql))

    async def empty_list(self) -> None:
        """Wake all commits that wait for a standby. They get no warning."""
        async with self.asking() as sql:
            await self._set_list(sql, "")

    async def cancel_waits(self) -> None:
        """End each commit's wait for a standby. It succeeds with a warning."""
        async with self.asking() as sql:
            await until(lambda: sql.fetchval(WAITING))
            await sql.execute(WAITING.replace("count(*)", "pg_cancel_backend(pid)"))

    async def most_advanced(self) -> list[Member]:
        """The standbys, that with the most first."""
        found = [(await self._received(member), member) for member in self.standbys]
        return [member for _, member in sorted(found, key=lambda one: -one[0])]

    async def fail_over(self, loss: Loss, *, to_wrong: bool = False, cut_seconds: float = 1.0) -> None:
        """Lose the primary, promote the most advanced standby, or the other one, and bring all others back.

        A primary that is cut off has no standbys and no name any more. It goes on for a while with the sessions that it
        has, until it is ended.
        """
        former = self.primary
        if loss == "killed":
            await asyncio.to_thread(former.kill)
        elif loss == "stopped":
            await asyncio.to_thread(former.stop, "immediate")
        for link in self.links.values():
            await link.refuse()
            link.heal()
        chosen = (await self.most_advanced())[-1 if to_wrong else 0]
        await asyncio.to_thread(chosen.promote)
        self.primary = chosen
        async with self.asking() as sql:
            await self._set_list(sql, _LIST)
            await sql.execute("CHECKPOINT")  # pg_rewind reads the new timeline in it
        for proxy in (self.name, *self.links.values()):
            proxy.upstream = ("127.0.0.1", chosen.port)
        if loss == "cut off":
            await lasts(cut_seconds)
            await asyncio.to_thread(former.kill)
        for link in self.links.values():
            await link.listen()
        await asyncio.gather(*(asyncio.to_thread(member.rewind, chosen) for member in self.standbys))
        await self.streams()

    async def _received(self, member: Member) -> int:
        async with self.asking(member) as sql:
            return int(await sql.fetchval("SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn"))

    async def _both(self, sql: Any) -> bool:
        return bool(await sql.fetchval(_STREAMING) == len(NAMES) - 1)

    async def _set_list(self, sql: Any, names: str) -> None:
        await sql.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        await sql.execute("SELECT pg_reload_conf()")
        await until(lambda: self._is_list(sql, names))

    async def _is_list(self, sql: Any, names: str) -> bool:
        return bool(await sql.fetchval("SHOW synchronous_standby_names") == names)


@asynccontextmanager
async def booted_cluster(folder: Path, bin_dir: Path) -> AsyncIterator[Cluster]:
    """Boot a primary with two standbys; nothing is left of it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=folder))
    folder.chmod(0o711)
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        links = {name: await stack.enter_async_context(proxied("127.0.0.1", 0)) for name in NAMES}
        members: dict[str, Member] = {}
        for name in NAMES:
            member = Member(name, folder / name, bin_dir, links[name].port, members.get("one"))
            members[name] = member
            stack.callback(member.discard)
            await asyncio.to_thread(member.start)
            for link in links.values():
                link.upstream = ("127.0.0.1", members["one"].port)
        way = await stack.enter_async_context(proxied("127.0.0.1", members["one"].port))
        cluster = Cluster(members, way, links)
        await cluster.streams()
        yield cluster
