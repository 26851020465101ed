"""What a client may leave with the broker: limits in bytes, fair turns, and replies that wait for their reader."""

import tracemalloc
from collections import deque

import pytest
import zmq

from reqrep.frames import Frames
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.budget import Budget, weight_of
from reqrep.majordomo.inside import Inside
from reqrep.majordomo.options import BrokerOptions, ServicePolicy, policies_from
from reqrep.majordomo.replies import WaitingReplies
from reqrep.memory import FreedMemory
from tests.reqrep.majordomo_peers import C1, E, Peers, reply_of, request_of
from tests.reqrep.running import PATIENT, PATIENT_BROKER, WAIT_SECONDS, running_broker, running_worker
from tests.waiting import block_until

MIB = 1024 * 1024


@pytest.mark.parametrize(("clients", "body_bytes"), [(1, 11), (10_000, 11), (100, 500)])
def test_a_waiting_request_costs_no_more_than_what_is_counted(clients: int, body_bytes: int) -> None:
    """GM-02, GS-04: a request of 20 bytes costs more than 20 bytes."""
    broker, requests = Broker(BrokerOptions()), 10_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(requests):
        client, body = b"%05d" % (number % clients), b"%0*d" % (body_bytes, number)
        broker.receive(1_000.0, [client, E, C1, bytes(bytearray(b"echo")), body])
    real = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert real <= broker.budget.held <= 4 * real


def test_the_guides_hundred_thousand_requests_of_one_client_fit_by_default() -> None:
    """GM-02, ZD-13."""
    budget = Budget(BrokerOptions().queue_bytes_max)
    assert 100_000 * weight_of([b"Hello world"]) < budget.client_bytes_max


def flood(peers: Peers, client: bytes, requests: int, body_bytes: int = 1_000, service: bytes = b"echo") -> None:
    for _ in range(requests):
        peers.request(client, b"x" * body_bytes, service)


def test_a_client_may_hold_a_quarter_and_all_clients_together_the_whole() -> None:
    """GS-04: the bytes of a queue are limited, whoever sends them and however large they are."""
    peers = Peers(queue_bytes_max=4 * MIB)
    flood(peers, b"c1", 2_000)
    held_by_one = peers.broker.budget.held
    for client in (b"c2", b"c3", b"c4", b"c5"):
        flood(peers, client, 2_000)
    assert 0.99 * MIB < held_by_one <= MIB
    assert 3.99 * MIB < peers.broker.budget.held <= 4 * MIB
    assert set(peers.drops) == {"client-queue-full", "queue-full"}


def test_a_policy_limits_the_bytes_of_one_service() -> None:
    """GM-02, GS-04."""
    peers = Peers(policies=policies_from({"small": {"queue_bytes_max": 10_000}}))
    flood(peers, b"c", 100, service=b"small")
    flood(peers, b"c", 100, service=b"other")
    queued = {name: len(service.queue) for name, service in peers.broker.services.items()}
    assert (queued, peers.drops) == ({b"small": 7, b"other": 100}, {"queue-full": 93})


def test_what_is_answered_or_expired_is_given_back() -> None:
    """GS-04: memory is given back."""
    peers = Peers()
    flood(peers, b"c1", 5)
    peers.ready(b"w")
    for _ in range(5):
        peers.reply(b"w", b"c1")
    assert peers.broker.budget.held == 0
    peers.leave(b"w")
    flood(peers, b"c2", 5)
    peers.wait(61)
    assert (peers.broker.budget.held, peers.drops) == (0, {"expired": 5})


def test_clients_are_served_in_turn() -> None:
    """GM-02, MD-11: a polite client waits for one request of the flood, not for all."""
    peers = Peers()
    for number in range(50):
        peers.request(b"flood", b"%d" % number)
    peers.request(b"polite", b"one")
    peers.request(b"polite", b"two")
    sent = peers.ready(b"w")
    for _ in range(4):
        sent += [frames for frames in peers.reply(b"w", sent[-1][4]) if frames[0] == b"w"]
    assert [(frames[4], frames[6]) for frames in sent] == [
        (b"flood", b"0"), (b"polite", b"one"), (b"flood", b"1"), (b"polite", b"two"), (b"flood", b"2")
    ]  # fmt: skip


def test_a_request_expires_by_its_clients_last_turn() -> None:
    """GM-02: whoever is being served has patience; a client that is not served loses its requests."""
    peers = Peers(policy=ServicePolicy(request_seconds_max=10))
    peers.ready(b"w")
    for number in range(6):
        peers.request(b"c", b"%d" % number)
    peers.request(b"c2", b"other", b"nobody")
    for _ in range(5):
        for _ in range(3):
            peers.wait(2.0)
            peers.heartbeat(b"w")
        peers.reply(b"w", b"c")
    assert (peers.drops, len(peers.broker.services[b"echo"].queue)) == ({"expired": 1}, 0)


def test_a_request_of_a_lost_worker_goes_before_all_others() -> None:
    """MD-21."""
    peers = Peers(policies={"echo": ServicePolicy(idempotent=True)})
    peers.ready(b"w1")
    peers.request(b"c1", b"first")
    for client in (b"c1", b"c2"):
        peers.request(client, b"second")
    peers.leave(b"w1")
    assert peers.ready(b"w2") == [request_of(b"w2", b"c1", b"first")]
    assert peers.reply(b"w2", b"c1")[1] == request_of(b"w2", b"c2", b"second")
    assert peers.reply(b"w2", b"c2")[1] == request_of(b"w2", b"c1", b"second")


def test_a_refused_client_is_named_once_a_minute() -> None:
    """GM-02: the log has a line, however many requests are refused."""
    peers = Peers(queue_bytes_max=100_000)
    for client in (b"c1", b"c1", b"c2"):
        flood(peers, client, 100)
    warned = [(event.peer, event.detail) for event in peers.events if event.kind == "warning"]
    words = "a request for echo was refused: client-queue-full"
    assert warned == [("c1", words), ("c2", words)]
    peers.now += 60
    flood(peers, b"c1", 100)
    assert len([event for event in peers.events if event.kind == "warning" and event.peer == "c1"]) == 2


@pytest.mark.parametrize("number", [[], [b"\x00hookwire-number:12345678"]], ids=["plain", "pipelined"])
def test_titanic_answers_500_when_its_client_holds_too_much(number: Frames) -> None:
    """GM-02, TI-05: the protocol has a status, so a refusal is not silent."""
    broker = Broker(BrokerOptions(queue_bytes_max=1_000), inside=Inside(frozenset({b"titanic.request"})))
    out, _ = broker.receive(0.0, [b"c", E, C1, b"titanic.request", *number, b"echo", b"x" * 500])
    assert out == [[b"c", E, C1, b"titanic.request", *number, b"500"]]


def test_a_request_of_titanic_counts_until_its_reply() -> None:
    """GS-04: its queue inside the process has the same limits."""
    broker = Broker(BrokerOptions(), inside=Inside(frozenset({b"titanic.request"})))
    broker.receive(0.0, [b"c", E, C1, b"titanic.request", b"echo", b"x" * 500])
    held = broker.budget.held
    broker.reply_inside(1, [b"200"])
    assert (held, broker.budget.held) == (weight_of([b"echo", b"x" * 500]), 0)


# --- replies that wait --------------------------------------------------------------------------------------------


class Pipe:
    """The socket's pipe to one client: it takes what fits."""

    def __init__(self) -> None:
        self.room = 0
        self.is_there = True
        self.taken: list[Frames] = []

    def send(self, frames: Frames) -> str | None:
        if not self.is_there:
            return "unreachable"
        if not self.room:
            return "full"
        self.room -= 1
        self.taken.append(frames)
        return None


def waiting(pipe: Pipe, budget: Budget, replies: int) -> WaitingReplies:
    kept = WaitingReplies(pipe.send, budget, 60.0)
    assert all(kept.keep(0.0, reply_of(b"c", b"%d" % number)) for number in range(replies))
    return kept


def test_replies_wait_in_order_until_their_client_reads() -> None:
    """GM-02, MD-30: red when a full pipe dropped them."""
    pipe, budget = Pipe(), Budget(MIB)
    kept = waiting(pipe, budget, 10)
    now, rooms = 0.0, deque([3, 0, 4, 9])
    while (at := kept.deadline()) is not None:
        now, pipe.room = at, rooms.popleft()
        assert kept.send_due(now) == []
    assert (pipe.taken, budget.held) == ([reply_of(b"c", b"%d" % number) for number in range(10)], 0)


def test_a_client_that_never_reads_loses_its_replies_after_a_minute() -> None:
    """ZP-36: it may not hold the budget for ever, nor cost a try per reply."""
    pipe, budget = Pipe(), Budget(MIB)
    kept = waiting(pipe, budget, 10)
    lost: list[tuple[Frames, str]] = []
    tries = 0
    while (at := kept.deadline()) is not None:
        lost += kept.send_due(at)
        tries += 1
    assert ([reason for _, reason in lost], budget.held, b"c" in kept.readers) == (["full"] * 10, 0, False)
    assert 100 < tries < 200


def test_the_replies_of_a_client_that_is_gone_are_given_up() -> None:
    pipe, budget = Pipe(), Budget(MIB)
    kept = waiting(pipe, budget, 3)
    pipe.is_there = False
    assert [reason for _, reason in kept.send_due(1.0)] == ["unreachable"] * 3
    assert (budget.held, kept.deadline()) == (0, None)


def test_replies_above_the_budget_are_not_kept() -> None:
    kept = WaitingReplies(Pipe().send, Budget(40_000), 60.0)
    found = [kept.keep(0.0, reply_of(b"c", b"x" * 1_000)) for _ in range(10)]
    assert found == [True] * 6 + [False] * 4


def test_a_reply_that_is_dropped_is_counted_and_its_client_named() -> None:
    """GM-02."""
    peers = Peers()
    _, events = peers.broker.failed(peers.now, reply_of(b"c"), "full")
    assert (peers.drops, [(event.kind, event.peer) for event in events]) == ({"client-full": 1}, [("warning", "c")])


def test_a_client_that_reads_only_at_the_end_gets_every_reply() -> None:
    """GM-02, ZD-13: the guide's asynchronous client, with all replies made before it reads the first."""
    requests = 4_000  # more than the socket's 1,000 messages for a peer, and what the system holds for the client
    context = zmq.Context()
    client = context.socket(zmq.DEALER)
    client.setsockopt(zmq.RCVTIMEO, WAIT_SECONDS * 1000)
    client.setsockopt(zmq.RCVHWM, 1)
    client.setsockopt(zmq.RCVBUF, 4096)
    with (
        running_broker(options=PATIENT_BROKER) as broker,
        running_worker(*broker.endpoints, concurrency=4, heartbeat=PATIENT),
    ):
        client.connect(*broker.endpoints)
        for number in range(requests):
            client.send_multipart([E, C1, b"echo", b"%01000d" % number])
        block_until(lambda: broker.broker.counters.totals["replies"] >= requests, WAIT_SECONDS)
        replies = {client.recv_multipart()[3] for _ in range(requests)}
    context.destroy(linger=0)
    assert (len(replies), broker.broker.counters.drops["client-full"]) == (requests, 0)


def test_freed_memory_is_given_back_once_most_of_it_is_free() -> None:
    """GS-04."""
    trims: list[int] = []
    memory = FreedMemory(trims.append)
    for held in (0, 20 * MIB, 15 * MIB, 9 * MIB, 0, 10 * MIB, 0):
        memory.note(held)
    assert trims == [0]
