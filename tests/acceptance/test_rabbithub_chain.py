"""The whole chain on real parts: git, the hub, RabbitMQ, amqp-consume and Prosody (FM-02, FM-03, FM-11)."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from scripts.servers.prosody import HOST, ProsodyServer
from scripts.servers.rabbitmq import RabbitServer
from tests.acceptance.git_example import EXAMPLE, Repository, git_environment, run, site_environment
from tests.app.cli.chat.test_chat import chatting, contact, variables
from tests.app.conftest import ALL_ROLES, WAIT_SECONDS, RunHub, RunningHub
from tests.hub.callback import serve_callbacks
from tests.waiting import until

HOOK = """#!/bin/sh
curl --silent --show-error --fail --request POST --header 'Content-Length: 0' {url} >/dev/null
"""


def hooked(repository: Repository, url: str) -> None:
    """Give the repository a hook that POSTs an empty body, and nothing else."""
    hook = repository.bare / "hooks" / "post-receive"
    hook.write_text(HOOK.format(url=shlex.quote(url)))
    hook.chmod(0o755)


@asynccontextmanager
async def consuming(url: str, exchange: str, queue: str, program: Path, **more: str) -> AsyncIterator[None]:
    """Debian's amqp-consume, bound to an exchange, runs a program for each message."""
    consume = shutil.which("amqp-consume")
    assert consume is not None, "amqp-consume is missing: run scripts/install-servers amqp-tools"
    process = await asyncio.create_subprocess_exec(
        consume, f"--url={url}", f"--queue={queue}", f"--exchange={exchange}", "--routing-key=push.#", program,
        env={**git_environment(), **more}, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def topic_of(hub: RunningHub, exchange: str) -> str:
    """The pattern of an exchange's topics."""
    ((number,),) = await hub.sql("SELECT id FROM hookwire.rabbithub_resources WHERE name = $1", exchange)
    return f"hookwire.rabbithub.x{number}.k.#"


async def test_a_push_rebuilds_the_site_is_seen_in_a_chat_and_amqp_programs_reach_webhooks(
    running_hub: RunHub, rabbitmq: RabbitServer, prosody: ProsodyServer, tmp_path: Path
) -> None:
    """FM-02, FM-03, FM-11, GM-08: an empty POST to an exchange's endpoint, and all that follows from it."""
    name = f"git-{secrets.token_hex(4)}"
    settings = {
        "amqp_url": rabbitmq.url, "amqp_exchange": f"{name}-hub", "amqp_sources": f"{name}.in?topic={name}.built",
    }  # fmt: skip
    async with (
        running_hub((*ALL_ROLES, "source"), **settings) as hub,
        contact(prosody) as person,
        serve_callbacks() as callbacks,
        chatting(variables(prosody, hub.url, tmp_path, XMPP_READERS=f"*@{HOST}=hookwire.rabbithub.#")),
    ):
        await hub.client.put(f"/rabbithub/endpoint/x/{name}?amqp.exchange_type=topic&amqp.mirror=true")
        repository = Repository(tmp_path, hub.url)
        hooked(repository, f"{hub.url}/rabbithub/endpoint/x/{name}?hub.topic=push.site")
        exchange = await topic_of(hub, name)
        person.ask(exchange)
        await person.answered(exchange, "subscribed")
        await hub.subscribe(f"{name}.built", callbacks.url())

        site = site_environment(repository, tmp_path / "www")
        url = rabbitmq.url.rstrip("/")  # an empty path would be a virtual host without a name
        async with consuming(url, name, name, EXAMPLE / "rebuild-site", **site):
            repository.commit("hello")
            said = await asyncio.to_thread(repository.push)
            page = tmp_path / "www" / "current" / "index.html"
            await until(lambda: page.exists() and page.read_text() == "hello", WAIT_SECONDS)
            await until(lambda: len(person.lines) == 1, WAIT_SECONDS)
        publish = shutil.which("amqp-publish")
        assert publish is not None
        await asyncio.to_thread(run, publish, f"--url={url}", f"--routing-key={name}.in", "--body=the site is built")
        ((_, about, body),) = await callbacks.wait_for_posts(1)

    assert (said, ".k.push.site" in person.lines[0]) == ("", True)
    assert (body, about["hookwire-topic"]) == (b"the site is built", f"{name}.built")
