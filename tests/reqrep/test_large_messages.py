"""Large messages of peers that do not read: requests at workers, and replies in the pipes of ZeroMQ."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import zmq

from reqrep.counters import Counters
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.pipes import LARGE_BYTES, LargeReply, Pipes
from tests.reqrep.majordomo_peers import C1, W2, E, Peers
from tests.reqrep.running import PATIENT, WAIT_SECONDS, running_broker, running_worker
from tests.waiting import block_until

MIB = 1024 * 1024
BODY = b"x" * (MIB - 1_000)


def test_a_large_request_counts_while_a_worker_executes_it() -> None:
    """GS-04: workers that do not read held one large request each, without a limit."""
    peers = Peers(queue_bytes_max=8 * MIB)
    for number in range(6):
        peers.ready(b"w%d" % number)
    for _ in range(6):
        peers.request(b"c", BODY)
    size = len(BODY) + len(b"c" + E + C1 + b"echo")
    assert (peers.broker.budget.held, peers.drops) == (2 * size, {"client-queue-full": 4})
    peers.reply(b"w0", b"c")
    peers.leave(b"w1")
    assert peers.broker.budget.held == 0


def test_a_small_request_does_not_count_while_a_worker_executes_it() -> None:
    """It would cost a round trip more than it saves: a worker has one request."""
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c", b"x" * (LARGE_BYTES - 100))
    assert peers.broker.budget.held == 0


def test_partial_replies_that_wait_to_be_joined_count() -> None:
    """GS-04, M2-06: a worker of 0.2 with a client of 0.1."""
    peers = Peers(queue_bytes_max=8 * MIB)
    peers.send(b"w", W2, b"\x01", b"echo")
    peers.request(b"c")
    held = []
    for _ in range(3):
        peers.send(b"w", W2, b"\x03", b"c", E, BODY)
        held.append(peers.broker.budget.held)
    size = len(BODY) + len(b"w" + W2 + b"\x03c")
    assert (held, peers.drops) == ([size, 2 * size, 0], {"joined-reply-too-large": 1, "worker-lost": 1})


@contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection. Nobody reads at the second."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            yield near, far


def test_a_pipe_counts_as_full_when_the_kernel_takes_no_more() -> None:
    """GS-04: a client gets 4 MiB beyond what its host acknowledges."""
    with connection() as (near, far):
        pipes, reply = Pipes(), LargeReply([b"c", b"x" * MIB], near.fileno())
        free = [pipes.is_full(reply) for _ in range(10)]
        near.setblocking(False)
        filled = near.send(b"x" * 64 * MIB)
        stuck = [pipes.is_full(reply) for _ in range(5)]
        while filled > 0:
            filled -= len(far.recv(min(filled, MIB)))
        block_until(lambda: not pipes.is_full(reply), WAIT_SECONDS)
    assert (free, stuck) == ([False] * 10, [False, False, True, True, True])


@pytest.mark.parametrize("descriptor", [-1, 1_000_000])
def test_an_unknown_connection_is_not_full(descriptor: int) -> None:
    assert not Pipes().is_full(LargeReply([b"c", b"x" * 64 * MIB], descriptor))


def has_handled(counts: Counters, requests: int) -> bool:
    return counts.totals["replies"] + counts.drops["client-queue-full"] == requests


def test_large_replies_to_a_client_that_does_not_read_stay_within_its_budget() -> None:
    """GS-04, MD-30: ZeroMQ kept a thousand replies of any size for it, and the broker knew nothing of them."""
    context = zmq.Context()
    client = context.socket(zmq.DEALER)
    client.setsockopt(zmq.RCVHWM, 1)
    options = BrokerOptions(heartbeat_seconds=20.0, queue_bytes_max=64 * MIB)
    with running_broker(options=options) as broker, running_worker(*broker.endpoints, heartbeat=PATIENT):
        client.connect(*broker.endpoints)
        counts = broker.broker.counters
        for number in range(50):
            client.send_multipart([E, C1, b"echo", bytes(MIB)])
            block_until(partial(has_handled, counts, number + 1), WAIT_SECONDS)
        kept = broker.broker.budget.held
    context.destroy(linger=0)
    assert (14 * MIB < kept <= 16 * MIB, counts.drops["client-full"] + counts.drops["client-queue-full"] > 0) == (
        True,
        True,
    )
