"""The conformance suite of workers of services: each ending of a handler, beside five good requests."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.workers.endings import ENDINGS, Ending
from tests.contract.workers.harness import GOOD, Hands
from tests.contract.workers.served import KINDS, Served, ServedKind
from tests.reqrep.running import running_broker
from tests.waiting import block_until

CASES = [
    pytest.param(kind, ending, id=f"{kind.name}-{ending.name}")
    for kind in KINDS
    for ending in ENDINGS
    if kind.on_loop or not ending.on_loop_only
]
NO_REPLY_SECONDS = 0.3
"""How long the client of the bad request waits for the reply that never comes."""


def ask_all(served: Served, hands: Hands, ending: Ending) -> tuple[bytes | None, list[bytes | None]]:
    """Ask the bad request and five good ones beside it."""
    fails = "bytes" in ending.fails_for
    with ThreadPoolExecutor(GOOD + 1) as clients:
        bad = clients.submit(served.ask, "bad", *((NO_REPLY_SECONDS, 1) if fails else ()))
        good = [] if ending.stops else [clients.submit(served.ask, "good") for _ in range(GOOD)]
        return bad.result(), [one.result() for one in good]


@pytest.mark.parametrize(("kind", "ending"), CASES)
def test_however_a_handler_ends_its_request_ends_and_the_worker_goes_on(kind: ServedKind, ending: Ending) -> None:
    """GB-03: a failed request has no reply; its slot is free again, so two more than there are slots are answered."""
    with running_broker() as broker:
        hands = Hands(ending.act)
        served = kind.open(broker.endpoints[0], hands)
        served.ask("good")
        found = ask_all(served, hands, ending)
        block_until(lambda: hands.bad)
        after = [] if ending.stops else [served.ask("good") for _ in range(4)]
        served.stop()
        has_ended = served.has_ended()

    reply = None if "bytes" in ending.fails_for else b"done"
    good = [] if ending.stops else [b"good"] * GOOD
    assert (found, after, has_ended) == ((reply, good), good[:4], True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "one_thread" not in kind.name], ids=lambda kind: kind.name)
def test_a_stop_has_an_end_whatever_a_handler_does(kind: ServedKind) -> None:
    """GB-04: a function cannot be stopped, so it is left; a coroutine is cancelled."""
    over = threading.Event()
    act = (lambda: asyncio.Event().wait()) if kind.on_loop else over.wait
    with running_broker() as broker, ThreadPoolExecutor(1) as clients:
        hands = Hands(act)
        served = kind.open(broker.endpoints[0], hands)
        served.ask("good")
        bad = clients.submit(served.ask, "bad", NO_REPLY_SECONDS, 1)
        block_until(lambda: hands.bad)
        served.stop()
        has_ended = served.has_ended()
        over.set()

    assert (bad.result(), has_ended) == (None, True)
