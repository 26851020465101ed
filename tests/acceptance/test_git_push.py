"""A git push rebuilds a site: real git, a real hub, a real RabbitMQ, the example's own scripts."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from scripts.servers.rabbitmq import RabbitServer
from tests.acceptance.git_example import EXAMPLE, Repository, git_environment, site_environment
from tests.waiting import until

HOOKWIRE = Path(sys.executable).parent / "hookwire"


@dataclass
class Chain:
    """A hub, a broker, a repository and a site, each real; ``serve`` and ``consume`` start the processes."""

    folder: Path
    rabbitmq: RabbitServer
    database_url: str
    port: int
    name: str = field(default_factory=lambda: f"site-{secrets.token_hex(4)}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **git_environment(), "HOOKWIRE_AMQP_URL": self.rabbitmq.url, "HOOKWIRE_AMQP_EXCHANGE": self.name,
            "HOOKWIRE_DATABASE_URL": self.database_url, "HOOKWIRE_LISTEN": f"127.0.0.1:{self.port}",
            "HOOKWIRE_DATA_DIR": str(self.folder / "data"), **more,
        }  # fmt: skip

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        with (self.folder / "serve.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(HOOKWIRE, "serve", env=self.environment(), stderr=log)
        try:
            async with httpx.AsyncClient() as client:
                await until(lambda: self._is_ready(client))
            yield
        finally:
            process.terminate()
            await process.wait()

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            answer = await client.get(f"{self.url}/readyz", timeout=2)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    @asynccontextmanager
    async def consume(self, repository: Repository, script: Path = EXAMPLE / "rebuild-site") -> AsyncIterator[None]:
        site = site_environment(repository, self.folder / "www")
        with (self.folder / "consume.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                HOOKWIRE, "consume", "--queue", self.name, "--exchange", self.name, "--bind", "git.push",
                "--retry-seconds", "0.1", "--exec", script,
                env=self.environment(**site), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)  # the hardest end; a message that was not acknowledged comes back
            await process.wait()

    async def shows(self, text: str) -> None:
        """Wait until a visitor sees the text."""
        page = self.folder / "www" / "current" / "index.html"

        async def is_shown() -> bool:
            return page.exists() and page.read_text() == text

        await until(is_shown, seconds=40)

    def waiting(self) -> int:
        """Messages in the queue, given to the consumer or not."""
        for line in self.rabbitmq.ctl("list_queues", "name", "messages").splitlines():
            name, messages = line.split("\t")
            if name == self.name:
                return int(messages)
        return 0


@pytest.fixture
def chain(tmp_path: Path, rabbitmq: RabbitServer, database_url: str, free_port: int) -> Chain:
    return Chain(tmp_path, rabbitmq, database_url, free_port)


async def test_a_push_rebuilds_the_site(chain: Chain):
    async with chain.serve():
        repository = Repository(chain.folder, chain.url)
        async with chain.consume(repository):
            for text in ("one", "two"):
                repository.commit(text)
                assert await asyncio.to_thread(repository.push) == ""
                await chain.shows(text)
            await until(lambda: asyncio.to_thread(lambda: chain.waiting() == 0))


async def test_a_push_before_anybody_listens_while_the_hub_is_away_and_after_a_killed_build_is_not_lost(chain: Chain):
    """F47, F26, I1: the spool, the hub's hold and the queue hand it over to each other."""
    repository = Repository(chain.folder, chain.url)
    repository.commit("one")
    assert "1 event(s) wait" in await asyncio.to_thread(repository.push)
    async with chain.serve():
        assert await asyncio.to_thread(repository.hook, b"") == ""
        hanging = chain.folder / "hanging"
        hanging.write_text(f"#!/bin/sh\necho $$ > {chain.folder}/pid\nexec sleep 600\n")
        hanging.chmod(0o755)
        async with chain.consume(repository, hanging):
            await until(lambda: asyncio.to_thread((chain.folder / "pid").exists))
        os.kill(int((chain.folder / "pid").read_text()), signal.SIGKILL)
    async with chain.consume(repository):
        await chain.shows("one")
