"""A peer that closes the connection in the middle of a greeting: the process lives, says so, and goes on (FC-03).

Each greeting of the product runs through a proxy to the real server, which is recorded once. Then it is held again for
each byte of the recorded answers, and the proxy closes everything after that byte, as a load balancer does whose
server is going down. Nothing else than the port's word for trouble may be raised, with a sentence for people; and with
the peer back, the same greeting succeeds.

The client runs on the event loop of the product, uvloop, and the peer in a thread of its own: the end of a stream then
arrives together with what came before it, at which aiormq raises StopAsyncIteration (FC-03).
"""

import asyncio
import logging
import secrets
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import accumulate
from typing import NamedTuple

import pytest
import uvloop

from scripts.servers.kafka import KafkaServer
from scripts.servers.process import ServerProcess
from tests.contract.greetings import GREETINGS, TROUBLE, Greeting, Peer
from tests.faults.proxy import Proxy

LANES = 12
HURRIED_SECONDS = 0.3
DEADLINE_SECONDS = 60.0


class Finding(NamedTuple):
    """What went wrong where the peer closed after so many bytes."""

    cut: int
    what: str


@pytest.fixture
def quiet() -> Iterator[None]:
    """The clients' own complaints would be thousands of lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


# Thousands of greetings: each has a deadline of its own, and all of them together only end what hangs.
_EVERY_BYTE = pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("every_byte", [False, _EVERY_BYTE], ids=["ends", "every byte"])
@pytest.mark.parametrize("greeting", GREETINGS, ids=lambda greeting: greeting.name)
def test_a_peer_that_closes_in_the_middle_of_a_greeting_is_trouble_and_is_greeted_again(
    greeting: Greeting, every_byte: bool, request: pytest.FixtureRequest
) -> None:
    """FC-03, FC-04, FC-05, F24: first at both ends and in the middle of each answer, then at every byte."""
    server = request.getfixturevalue(greeting.server)
    with threaded_loop() as loop:
        troubled, findings = uvloop.run(judged(greeting, server, loop, every_byte=every_byte))
    assert (troubled > 0, findings) == (True, [])


async def judged(
    greeting: Greeting, server: ServerProcess, loop: asyncio.AbstractEventLoop, *, every_byte: bool
) -> tuple[int, list[Finding]]:
    """How often there was trouble, and what went wrong."""
    async with proxy_before(server, loop) as proxy:
        cuts = list(reversed(await cuts_of(greeting, proxy, every_byte=every_byte)))
    findings: list[Finding] = []
    troubles: list[str] = []

    async def lane() -> None:
        name = secrets.token_hex(4)
        async with proxy_before(server, loop) as proxy:
            await greet_at_last(greeting, proxy, name)
            while cuts:
                cut = cuts.pop()
                in_loop(loop, proxy.close_after, cut)
                what = await heard(greeting, Peer(proxy.port, HURRIED_SECONDS, name), troubles)
                in_loop(loop, proxy.heal)
                what = what or await greet_at_last(greeting, proxy, name)
                findings.extend([Finding(cut, what)] if what else [])

    async with asyncio.TaskGroup() as lanes:
        for _ in range(LANES):
            lanes.create_task(lane())
    print(f"{greeting.name}: {len(troubles)} times trouble, in {len(set(troubles))} sentences such as {troubles[:1]}")
    return len(troubles), findings


async def cuts_of(greeting: Greeting, proxy: Proxy, *, every_byte: bool) -> list[int]:
    """After how many bytes to close: of all answers of a greeting that succeeds, at every byte or at what matters."""
    name = secrets.token_hex(4)
    await greet_at_last(greeting, proxy, name)  # it makes what is missing, such as topics
    proxy.answers.clear()
    await greet_at_last(greeting, proxy, name)
    sizes = proxy.answers[:]
    if every_byte:
        return list(range(sum(sizes)))
    ends = zip(accumulate(sizes, initial=0), sizes, strict=False)
    return sorted({cut for begin, size in ends for cut in (begin, begin + 1, begin + size // 2, begin + size - 1)})


async def heard(greeting: Greeting, peer: Peer, troubles: list[str]) -> str:
    """What is wrong with how a greeting ended."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await greeting.greet(peer)
    except TimeoutError:
        return "it hangs"
    except TROUBLE as trouble:
        troubles.append(str(trouble))
        is_sentence = 0 < len(str(trouble)) <= 400 and str(trouble).isprintable()
        return "" if is_sentence else f"no sentence: {str(trouble)!r}"
    except Exception as error:  # noqa: BLE001 - what would end the process
        return f"{type(error).__name__}: {error}"
    return ""


async def greet_at_last(greeting: Greeting, proxy: Proxy, name: str) -> str:
    """Greet a peer that is back; what is wrong if that does not succeed."""
    last = ""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                try:
                    await greeting.greet(Peer(proxy.port, 10.0, name))
                    return ""
                except TROUBLE as trouble:
                    last = str(trouble)
    except TimeoutError:
        return f"it does not go on: {last}"


@asynccontextmanager
async def proxy_before(server: ServerProcess, loop: asyncio.AbstractEventLoop) -> AsyncIterator[Proxy]:
    """A proxy in the other thread; Kafka's clients are led back to it by what the broker advertises."""
    proxy = Proxy(("127.0.0.1", server.proxied_port if isinstance(server, KafkaServer) else server.port))
    await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(proxy.listen(), loop).result())
    if isinstance(server, KafkaServer):
        advertised, proxied = (b"127.0.0.1" + struct.pack(">i", port) for port in (server.advertised_port, proxy.port))
        proxy.rewrite = advertised, proxied
    try:
        yield proxy
    finally:
        await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(proxy.refuse(), loop).result())


@contextmanager
def threaded_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def in_loop(loop: asyncio.AbstractEventLoop, call: object, *arguments: object) -> None:
    """Call there, and wait for it."""
    done = threading.Event()

    def run() -> None:
        call(*arguments)  # type: ignore[operator]
        done.set()

    loop.call_soon_threadsafe(run)
    done.wait()
