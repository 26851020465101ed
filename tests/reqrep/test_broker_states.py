"""The Majordomo broker under arbitrary sequences of peers, faults and time (Hypothesis, simulated clock).

What must hold after each step: a worker has at most one request (MD-12), an idle worker stands in exactly one list
(MD-31), each request that was accepted is answered, refused with a counted reason, queued or with a worker (ZL-09).
"""

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reqrep.majordomo.options import BrokerOptions, ServicePolicy
from tests.examples import examples
from tests.reqrep.majordomo_peers import C1, C2, W1, W2, E, Peers

WORKERS = st.sampled_from([b"w1", b"w2", b"w3", b"w4"])
CLIENTS = st.sampled_from([b"c1", b"c2", b"c3"])
SERVICES = st.sampled_from([b"echo", b"safe"])


class Broker(RuleBasedStateMachine):
    """``sent``: the request that each worker holds, as the wire showed it; ``told``: replies that reached clients."""

    def __init__(self) -> None:
        super().__init__()
        policies = {"safe": ServicePolicy(idempotent=True, request_seconds_max=20, busy_seconds_max=30)}
        self.peers = Peers(policies=policies, policy=ServicePolicy(request_seconds_max=20, queue_requests_max=5))
        self.accepted = 0
        self.told = 0
        self.sent: dict[bytes, bytes] = {}

    def take(self, out: list[list[bytes]]) -> None:
        """Follow what the broker sends, as its peers would."""
        for frames in out:
            if W1 in frames[:3] or W2 in frames[:3]:
                start = frames.index(W1 if W1 in frames[:3] else W2)
                command = frames[start + 1]
                if command == b"\x02":
                    assert frames[0] not in self.sent, "a worker has two requests"
                    self.sent[frames[0]] = frames[start + 2]
                elif command == (b"\x05" if frames[start] == W1 else b"\x06"):
                    self.sent.pop(frames[0], None)
            else:
                self.told += 1

    @rule(worker=WORKERS, service=SERVICES, modern=st.booleans())
    def register(self, worker: bytes, service: bytes, modern: bool) -> None:
        self.take(self.peers.send(*([worker, W2] if modern else [worker, E, W1]), b"\x01", service))

    @rule(client=CLIENTS, service=SERVICES, modern=st.booleans())
    def ask(self, client: bytes, service: bytes, modern: bool) -> None:
        self.accepted += 1
        head = [client, C2, b"\x01"] if modern else [client, E, C1]
        self.take(self.peers.send(*head, service, b"body"))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.sent)))
        client = self.sent.pop(worker)
        known = self.peers.broker.workers.get(worker)
        head = [W2, b"\x04"] if known is not None and known.dialect.name == "0.2" else [E, W1, b"\x03"]
        self.take(self.peers.send(worker, *head, client, E, b"answer"))

    @rule(worker=WORKERS, client=CLIENTS)
    def answer_anything(self, worker: bytes, client: bytes) -> None:
        told = self.told
        held = self.sent.pop(worker, None)
        self.take(self.peers.send(worker, E, W1, b"\x03", client, E, b"forged"))
        assert self.told == told or held == client

    @rule(worker=WORKERS)
    def leave(self, worker: bytes) -> None:
        self.sent.pop(worker, None)
        self.take(self.peers.leave(worker))

    @rule(worker=WORKERS)
    def beat(self, worker: bytes) -> None:
        self.take(self.peers.heartbeat(worker))

    @rule(worker=WORKERS, reason=st.sampled_from(["full", "unreachable"]))
    def fail(self, worker: bytes, reason: str) -> None:
        known = self.peers.broker.workers.get(worker)
        if known is not None and known.request is not None:
            request = known.dialect.to_worker(worker, known.request.client, known.request.body)
            self.sent.pop(worker, None)
            self.take(self.peers.broker.failed(self.peers.now, request, reason)[0])

    @rule(frames=st.lists(st.sampled_from([E, C1, W1, C2, W2, b"\x01", b"\x04", b"echo", b"junk"]), max_size=6))
    def nonsense(self, frames: list[bytes]) -> None:
        before = self.peers.broker.counters.totals["requests"]
        self.take(self.peers.send(b"stranger", *frames))
        self.accepted += self.peers.broker.counters.totals["requests"] - before

    @rule(seconds=st.sampled_from([0.1, 2.5, 7.6, 25.0]))
    def wait(self, seconds: float) -> None:
        self.take(self.peers.wait(seconds))
        for worker in list(self.sent):
            if worker not in self.peers.broker.workers:
                del self.sent[worker]

    @invariant()
    def every_worker_stands_in_the_right_lists(self) -> None:
        broker = self.peers.broker
        idle = [worker for service in broker.services.values() for worker in service.idle]
        listed = [worker for service in broker.services.values() for worker in service.workers]
        assert sorted(idle) == sorted(a for a, w in broker.workers.items() if w.request is None)
        assert sorted(listed) == sorted(broker.workers)

    @invariant()
    def no_request_waits_beside_an_idle_worker(self) -> None:
        assert [s.name for s in self.peers.broker.services.values() if s.idle and s.queue] == []

    @invariant()
    def every_request_is_accounted_for(self) -> None:
        broker = self.peers.broker
        queued = sum(len(service.queue) for service in broker.services.values())
        busy = sum(worker.request is not None for worker in broker.workers.values())
        reasons = ("expired", "queue-full", "client-queue-full", "worker-lost", "bad-service-name", "too-many-services")
        refused = sum(broker.counters.drops[reason] for reason in reasons)
        totals = broker.counters.totals
        assert totals["requests"] == totals["replies"] + queued + busy + refused
        assert (broker.budget.held > 0) == (queued > 0)


TestBroker = Broker.TestCase
TestBroker.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)

FRAMES = st.lists(st.binary(max_size=12) | st.sampled_from([E, C1, W1, C2, W2, b"\x01", b"echo"]), max_size=8)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(FRAMES, max_size=12))
def test_any_message_leaves_the_broker_able_to_serve(messages: list[list[bytes]]) -> None:
    """B-58."""
    peers = Peers()
    for frames in messages:
        peers.send(b"stranger", *frames)
    peers.ready(b"w", b"clean")
    assert peers.request(b"c", service=b"clean") == [[b"w", E, W1, b"\x02", b"c", E, b"hello"]]


def mutations(count: int) -> int:
    """Send so many random and mutated messages to a broker with workers; return how many it dropped."""
    import random

    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")  # shown by pytest when the test fails
    chance = random.Random(seed)
    peers = Peers(service_idle_seconds=1)
    pool = [
        [E, C1, b"echo", b"hello"], [E, W1, b"\x01", b"echo"], [E, W1, b"\x03", b"c1", E, b"x"], [E, W1, b"\x04"],
        [E, W1, b"\x05"], [C2, b"\x01", b"echo", b"hello"], [W2, b"\x01", b"echo"], [W2, b"\x04", b"c1", E, b"x"],
        [W2, b"\x03", b"c1", E, b"x"], [E, C1, b"mmi.call", b"echo", b"x"], [E, C1, b"mmi.stats", b""],
    ]  # fmt: skip
    for _ in range(count):
        frames = list(chance.choice(pool))
        for _ in range(chance.randrange(3)):
            change = chance.randrange(4)
            at = chance.randrange(len(frames) + 1)
            if change == 0:
                frames.insert(at, chance.choice([E, C1, W1, C2, W2, chance.randbytes(chance.randrange(8))]))
            elif change == 1 and frames:
                del frames[at % len(frames)]
            elif change == 2 and frames:
                frames[at % len(frames)] = chance.randbytes(chance.randrange(300))
            elif frames:
                frames[at % len(frames)] = frames[at % len(frames)][:-1]
        peers.send(chance.choice([b"c1", b"w1", b"w2", b"w3", b"s"]), *frames)
        if chance.random() < 0.02:
            peers.wait(chance.choice([0.1, 3.0]))
    assert peers.broker.options == BrokerOptions(service_idle_seconds=1)
    peers.wait(1_000)
    assert (peers.broker.workers, peers.broker.services) == ({}, {})
    peers.ready(b"w", b"clean")
    assert peers.request(b"c", service=b"clean") != []
    return sum(peers.drops.values())


def test_a_hundred_thousand_mutated_messages_leave_the_broker_alive() -> None:
    """B-58, ZD-02, ZD-08, XX-05."""
    assert mutations(100_000) > 10_000
