"""Request-reply under faults: processes of each pattern killed and stopped, clients that never read, long runs."""

import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from hookwire.services import (
    Client,
    FreelanceClient,
    FreelanceOptions,
    HeartbeatOptions,
    LazyPirate,
    NoReply,
    Pipeline,
)  # fmt: skip
from reqrep.majordomo.options import BrokerOptions, ServicePolicy
from reqrep.transport import SocketOptions, Transport
from tests.reqrep.running import WAIT_SECONDS, client_of, running_broker, running_worker
from tests.reqrep.test_broker_states import mutations
from tests.reqrep.test_examples import endpoint, program
from tests.waiting import block_poll, block_until


class Cast:
    """The processes of one pattern, by role; a killed one is started again with the same words."""

    def __init__(self, stack: ExitStack, words: dict[str, tuple[str, ...]]) -> None:
        self._stack = stack
        self._words = words
        self._processes = {role: stack.enter_context(program(*line)) for role, line in words.items()}

    def strike(self, role: str, number: signal.Signals) -> threading.Timer:
        """Kill or stop a process; a timer heals it."""
        self._processes[role].send_signal(number)
        healing = threading.Timer(1.0, self._heal, (role, number))
        healing.start()
        return healing

    def _heal(self, role: str, number: signal.Signals) -> None:
        if number == signal.SIGSTOP:
            self._processes[role].send_signal(signal.SIGCONT)
        else:
            self._processes[role].wait(WAIT_SECONDS)
            self._processes[role] = self._stack.enter_context(program(*self._words[role]))


def pirate(kind: str) -> tuple[Mapping[str, tuple[str, ...]], Callable[[bytes], bytes]]:
    front, back = endpoint(), endpoint()
    worker = (f"{kind}worker", "--connect", back, "--work-seconds", "0")
    words = {"queue": (f"{kind}queue", "--frontend", front, "--backend", back), "worker": worker, "second": worker}
    return words, lazy(front)


def lazy(*addresses: str) -> Callable[[bytes], bytes]:
    client = LazyPirate(*addresses, timeout_seconds=1.0, tries=100)
    return lambda body: client.call(body)[0]


def lone_server() -> tuple[Mapping[str, tuple[str, ...]], Callable[[bytes], bytes]]:
    address = endpoint()
    return {"server": ("lpserver", "--bind", address, "--work-seconds", "0")}, lazy(address)


def majordomo() -> tuple[Mapping[str, tuple[str, ...]], Callable[[bytes], bytes]]:
    address = endpoint()
    client = Client(address, timeout_seconds=1.0, tries=100)
    worker = ("mdworker", "--connect", address)
    words = {"broker": ("mdbroker", "--bind", address), "worker": worker, "second": worker}
    return words, lambda body: client.call("echo", body)


def pair() -> tuple[Mapping[str, tuple[str, ...]], Callable[[bytes], bytes]]:
    front, state = (endpoint(), endpoint()), (endpoint(), endpoint())
    words = {
        role: ("bstarsrv2", *flags, "--bind", front[own], "--state-bind", state[own], "--state-peer", state[1 - own],
               "--state-ms", "200")
        for role, flags, own in (("primary", (), 0), ("backup", ("--backup",), 1))
    }  # fmt: skip
    return words, lazy(*front)


def freelance() -> tuple[Mapping[str, tuple[str, ...]], Callable[[bytes], bytes]]:
    servers = {"first": endpoint(), "second": endpoint()}
    options = FreelanceOptions(ping_seconds=0.2, dead_seconds=0.6, request_seconds_max=WAIT_SECONDS)
    client = FreelanceClient(*servers.values(), options=options)
    words = {role: ("flserver3", "--endpoint", address) for role, address in servers.items()}
    return words, lambda body: body if client.call(body).frames == [b"OK"] else b""


PATTERNS = [
    (lone_server, "server"),
    (lambda: pirate("sp"), "worker"),
    (lambda: pirate("pp"), "queue"),
    (lambda: pirate("pp"), "worker"),
    (majordomo, "broker"),
    (majordomo, "worker"),
    (pair, "primary"),
    (pair, "backup"),
    (freelance, "first"),
]
NAMES = ["lazy-server", "simple-worker", "paranoid-queue", "paranoid-worker", "majordomo-broker", "majordomo-worker",
         "pair-primary", "pair-backup", "freelance-server"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
@pytest.mark.parametrize(("pattern", "role"), PATTERNS, ids=NAMES)
def test_a_process_that_is_killed_or_stopped_loses_no_call(
    pattern: Callable[[], tuple[Mapping[str, tuple[str, ...]], Callable[[bytes], bytes]]],
    role: str,
    number: signal.Signals,
) -> None:
    """XX-05, HB-02, LP-08, SP-08, PP-12, MD-26, BS-13, FL-10: struck while calls run; each is answered in order."""
    words, call = pattern()
    with ExitStack() as stack:
        cast = Cast(stack, words)
        replies = [call(b"%d" % index) for index in range(5)]
        healing = cast.strike(role, number)
        until = time.monotonic() + 2.0
        while healing.is_alive() or time.monotonic() < until or len(replies) < 15:
            replies.append(call(b"%d" % len(replies)))
            block_poll()
    assert replies == [b"%d" % index for index in range(len(replies))]


@contextmanager
def silent_client(address: str, requests: int) -> Iterator[Callable[[], bool]]:
    """A client that sends and does not read. It gives a function that takes one reply, if there is one."""
    transport = Transport()
    socket = transport.socket("dealer", SocketOptions(high_water_messages=10))
    socket.connect(address)
    for _ in range(requests):
        block_until(lambda: socket.send([b"", b"MDPC01", b"echo", b"x" * 2_000]) is None)
    yield lambda: socket.receive() is not None
    transport.close()


@dataclass(frozen=True)
class Overload:
    """What a client that did not read did to a broker. ``lost``: requests without a reply and without a drop."""

    drops: dict[str, int]
    lost: int
    growth_mebibytes: int


def overload(requests: int, options: BrokerOptions) -> Overload:
    """Let a client send so many requests and read no reply; then count the replies that reached it after all."""
    with (
        running_broker(options=options) as broker,
        running_worker(*broker.endpoints, concurrency=2, heartbeat=HeartbeatOptions()) as _,
        client_of(*broker.endpoints) as client,
    ):
        assert client.call("echo", b"ready") == b"ready"
        before = peak_mebibytes()
        with silent_client(broker.endpoints[0], requests) as takes_one:
            drops = settled(client, requests + 1)
            growth = peak_mebibytes() - before
            due = requests - sum(drops.values())
            taken = 0
            while taken < due:
                block_until(takes_one)
                taken += 1
            while takes_one():
                taken += 1
            assert client.call("echo", b"alive") == b"alive"
    return Overload(drops, due - taken, growth)


def settled(client: Client, requests: int) -> dict[str, int]:
    """The broker's drops when each of so many requests has its reply or is dropped."""
    deadline = time.monotonic() + WAIT_SECONDS * 30
    while True:
        stats = json.loads(client.call_frames("mmi.stats", [b""])[1])
        totals, drops = stats["totals"], dict(stats["drops"])
        done = totals["replies"] + sum(drops.values()) - drops.get("client-full", 0)
        if totals["requests"] == done == requests:
            return drops
        if time.monotonic() > deadline:
            raise TimeoutError(stats)
        block_poll()


def peak_mebibytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_a_client_that_never_reads_costs_neither_the_others_nor_memory() -> None:
    """MD-30, ZL-01, ZL-09, ZP-32, ZP-36: every request that gets no reply is counted, and no other."""
    found = overload(8_000, BrokerOptions(queue_bytes_max=4 * 1024 * 1024))
    assert set(found.drops) <= {"client-full", "queue-full", "client-queue-full"}
    assert (sum(found.drops.values()) > 0, found.lost, found.growth_mebibytes < 200) == (True, 0, True), found


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_million_requests_of_a_client_that_never_reads_do_not_grow_the_broker() -> None:
    """ZP-32, ZP-36: each request has a reply or a counted drop."""
    found = overload(1_000_000, BrokerOptions())
    assert (found.lost, found.growth_mebibytes < 300) == (0, True), found


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_none_of_a_million_round_trips_is_lost() -> None:
    """ZP-32."""
    with running_broker() as broker, running_worker(*broker.endpoints, concurrency=4):
        client = Pipeline(*broker.endpoints, timeout_seconds=WAIT_SECONDS)
        for number in range(1_000_000):
            client.send("echo", b"%d" % number)
        assert sum(client.receive().frames is None for _ in range(1_000_000)) == 0
        client.close()


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_million_mutated_messages_leave_the_broker_alive() -> None:
    """B-58, XX-05."""
    assert mutations(1_000_000) > 100_000


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_two_hundred_switches_of_real_processes_are_never_served_twice() -> None:
    """XX-05, ZP-35: the active side is killed and started again, 200 times; each call has one answer."""
    words, call = pair()
    with ExitStack() as stack:
        cast = Cast(stack, words)
        for number in range(200):
            assert call(b"%d" % number) == b"%d" % number
            cast.strike("primary" if number % 2 == 0 else "backup", signal.SIGKILL).join()
            assert call(b"again") == b"again"


def test_a_worker_process_that_is_killed_while_it_works_is_replaced_for_an_idempotent_service() -> None:
    """MD-21, ZP-32: the socket tells nothing at first; the heartbeats of the worker stop."""
    policy = ServicePolicy(idempotent=True, busy_seconds_max=1.0)
    with running_broker(options=BrokerOptions(heartbeat_seconds=0.2, policy=policy)) as broker:
        (address,) = broker.endpoints
        stuck = (
            "from hookwire.services import Worker\nimport time\n"
            f"w = Worker({address!r})\nw.service('echo')(lambda body: print('got it', flush=True) or time.sleep(600))\n"
            "w.run()"
        )
        with subprocess.Popen([sys.executable, "-c", stuck], stdout=subprocess.PIPE, text=True) as process:
            answers: list[object] = []
            with client_of(address, timeout_seconds=WAIT_SECONDS, tries=1) as client:
                thread = threading.Thread(target=lambda: answers.append(call_or_error(client)))
                thread.start()
                assert process.stdout is not None
                assert process.stdout.readline() == "got it\n"
                process.kill()
                with running_worker(address):
                    thread.join(WAIT_SECONDS)
    assert answers == [b"work"]


def call_or_error(client: Client) -> object:
    try:
        return client.call("echo", b"work")
    except NoReply as error:
        return error
