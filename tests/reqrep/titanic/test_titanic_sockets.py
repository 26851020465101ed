"""Titanic in a broker, over real sockets: the three services, and requests that outlive everybody (9/TSP)."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path

import pytest

from hookwire.services import Pipeline, Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.options import TitanicOptions
from reqrep.titanic.store import Receipt
from reqrep.titanic.thread import TitanicPlan
from tests.reqrep.running import FAST as FAST_BEATS
from tests.reqrep.running import FREE, client_of, running_broker, running_worker, threaded
from tests.reqrep.titanic.peers import ask, close, reply, submit, titanic_broker
from tests.waiting import block_until

NEVER = b"0" * 32


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_a_request_is_accepted_executed_fetched_and_closed(tmp_path: Path, version: str) -> None:
    """TI-02 to TI-05, M2-06: a worker of Majordomo, which knows nothing of Titanic."""
    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints, version=version) as client:
        request_id = submit(client, b"hello", b"", b"\xff")
        pending = ask(client, request_id)
        with running_worker(*broker.endpoints):
            frames = reply(client, request_id)
            again = ask(client, request_id)
            closed = [close(client, request_id), close(client, request_id), ask(client, request_id)]
    assert (pending, frames, again, closed) == (
        [b"300"], [b"hello", b"", b"\xff"], [b"200", b"hello", b"", b"\xff"], [[b"200"], [b"200"], [b"400"]]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("service", "body", "status"),
    [
        ("titanic.request", [b"echo"], b"400"),
        ("titanic.request", [b"", b"x"], b"400"),
        ("titanic.request", [b"\xff\xfe", b"x"], b"400"),
        ("titanic.request", [b"mmi.service", b"x"], b"400"),
        ("titanic.request", [b"titanic.close", NEVER], b"400"),
        ("titanic.request", [b"a\nb", b"x"], b"400"),
        ("titanic.request", [b"n" * 256, b"x"], b"400"),
        ("titanic.reply", [b""], b"400"),
        ("titanic.reply", [NEVER], b"400"),
        ("titanic.reply", [b"../../etc/passwd"], b"400"),
        ("titanic.reply", [b"\xff" * 32], b"400"),
        ("titanic.close", [NEVER], b"200"),
        ("titanic.close", [b"../requests.titanic"], b"200"),
        ("titanic.close", [b"x" * 100_000], b"200"),
        ("titanic.other", [b"x"], b"404"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_nobody_expects_gets_a_status_and_breaks_nothing(
    tmp_path: Path, service: str, body: list[bytes], status: bytes
) -> None:
    """TI-04, TI-20, ZD-15, ZD-18: no id and no name of a service is ever part of a path; there is one file."""
    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints, timeout_seconds=2.0) as client:
        before = submit(client, b"kept")
        if status == b"404":
            found = client.call_frames("mmi.service", [service.encode()])
        else:
            found = client.call_frames(service, body)
        assert (found, ask(client, before), sorted(each.name for each in tmp_path.iterdir())) == (
            [status], [b"300"], ["requests.titanic", "requests.titanic.lock"]
        )  # fmt: skip


def test_requests_and_replies_survive_a_restart_of_broker_worker_and_client(tmp_path: Path) -> None:
    """TI-08, TI-22: another client fetches, over another connection, after everything was started anew."""
    with titanic_broker(tmp_path) as broker, running_worker(*broker.endpoints), client_of(*broker.endpoints) as client:
        done = submit(client, b"done")
        reply(client, done)
        waiting = submit(client, b"waiting", service=b"later")
    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints) as client:
        later = Worker(*broker.endpoints, heartbeat=FAST_BEATS, reconnect_seconds=0.1)
        later.frames_service("later")(lambda frames: [b"late", *frames])
        with threaded(later.run, later.stop):
            assert (reply(client, done), reply(client, waiting)) == ([b"done"], [b"late", b"waiting"])


def test_many_pending_requests_and_a_late_worker_run_each_request_once(tmp_path: Path) -> None:
    """TI-13, ZD-14: the reference executed four of five requests again and again."""
    runs: list[bytes] = []
    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints) as client:
        ids = [submit(client, b"%d" % number, service=b"count") for number in range(25)]
        worker = Worker(*broker.endpoints, heartbeat=FAST_BEATS, reconnect_seconds=0.1)
        worker.service("count", concurrency=2)(lambda body: runs.append(body) or body)  # type: ignore[func-returns-value]
        with threaded(worker.run, worker.stop):
            replies = [reply(client, request_id) for request_id in ids]
            submit(client, b"last", service=b"count")
            block_until(lambda: b"last" in runs)
    expected = [b"%d" % number for number in range(25)]
    assert (replies, sorted(runs)) == ([[each] for each in expected], sorted([*expected, b"last"]))


class ExtensionsCounted(MemoryRequestStore):
    """A lease is extended three times within its length."""

    extensions = 0

    async def extend(self, receipts: Collection[Receipt], lease_seconds: float) -> set[Receipt]:
        self.extensions += 1
        return await super().extend(receipts, lease_seconds)


def test_a_service_that_is_slower_than_a_lease_runs_once() -> None:
    """TI-18, ZD-16: the reference waited one second, once, and began again for ever."""
    runs: list[bytes] = []
    go_on = threading.Event()

    def slow(body: bytes) -> bytes:
        runs.append(body)
        go_on.wait(60)
        return body

    store = ExtensionsCounted()
    titanic = TitanicPlan(lambda: nullcontext(store), TitanicOptions(look_seconds=0.05, lease_seconds=0.3))
    with running_broker(titanic=titanic) as broker, client_of(*broker.endpoints) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST_BEATS, reconnect_seconds=0.1)
        worker.service("slow", concurrency=2)(slow)
        with threaded(worker.run, worker.stop):
            request_id = submit(client, b"x", service=b"slow")
            block_until(lambda: store.extensions >= 9)  # three leases
            go_on.set()
            assert (reply(client, request_id), runs) == ([b"x"], [b"x"])


def test_a_slow_or_absent_service_delays_no_other(tmp_path: Path) -> None:
    """TI-19, ZD-16: the reference dispatched one request after the other."""
    go_on = threading.Event()
    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST_BEATS, reconnect_seconds=0.1)
        worker.service("slow")(lambda body: (go_on.wait(60) and body) or body)
        worker.service("quick")(lambda body: body)
        with threaded(worker.run, worker.stop):
            absent = [submit(client, b"x", service=b"absent") for _ in range(20)]
            slow = [submit(client, b"x", service=b"slow") for _ in range(20)]
            quick = [reply(client, submit(client, b"x", service=b"quick")) for _ in range(5)]
            still = {tuple(ask(client, request_id)) for request_id in absent + slow}
            go_on.set()
    assert (quick, still) == ([[b"x"]] * 5, {(b"300",)})


def test_a_request_that_was_closed_while_it_ran_stays_unknown(tmp_path: Path) -> None:
    """TI-17, ZD-16: the reference writes the reply nevertheless, and answers 200 later."""
    runs, go_on = threading.Event(), threading.Event()

    def handler(body: bytes) -> bytes:
        runs.set()
        go_on.wait(60)
        return body

    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST_BEATS, reconnect_seconds=0.1)
        worker.service("slow")(handler)
        with threaded(worker.run, worker.stop):
            request_id = submit(client, b"x", service=b"slow")
            runs.wait(60)
            close(client, request_id)
            go_on.set()
            block_until(lambda: broker.titanic_counts().get("executed"))
            assert ask(client, request_id) == [b"400"]


def test_a_worker_that_fails_is_not_the_end_of_a_request() -> None:
    """TI-08: the handler fails twice; the request is executed a third time, and the reply is there."""
    tries: list[bytes] = []

    def failing(body: bytes) -> bytes:
        tries.append(body)
        if len(tries) < 3:
            raise RuntimeError("simulated")
        return body

    with titanic_broker() as broker, client_of(*broker.endpoints) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST_BEATS, reconnect_seconds=0.1)
        worker.service("failing")(failing)
        with threaded(worker.run, worker.stop):
            assert (reply(client, submit(client, b"x", service=b"failing")), tries) == ([b"x"], [b"x"] * 3)


def test_requests_that_nobody_closed_are_forgotten() -> None:
    """TI-16: 400 afterwards."""
    options = TitanicOptions(look_seconds=0.05, retention_seconds=0.2, expire_seconds=0.1)
    with titanic_broker(titanic_options=options) as broker, client_of(*broker.endpoints) as client:
        request_id = submit(client, b"x")
        block_until(lambda: ask(client, request_id) == [b"400"])


def test_many_outstanding_requests_over_one_socket_are_all_accepted(tmp_path: Path) -> None:
    """TI-21: the number of a pipelined request comes back and is no part of what is stored."""
    with ExitStack() as stack:
        broker = stack.enter_context(titanic_broker(tmp_path))
        stack.enter_context(running_worker(*broker.endpoints, concurrency=2))
        client = stack.enter_context(client_of(*broker.endpoints))
        with closing(Pipeline(*broker.endpoints, window=50, timeout_seconds=30.0)) as pipeline:
            numbers = {pipeline.send("titanic.request", b"echo", b"%d" % n): n for n in range(200)}
            answers = [pipeline.receive() for _ in numbers]
            ids = {numbers[answer.number]: answer.frames[1] for answer in answers}
        assert [reply(client, ids[number]) for number in range(200)] == [[b"%d" % number] for number in range(200)]


def test_the_broker_tells_what_titanic_holds(tmp_path: Path) -> None:
    """MM-02, MM-07: the three services are there at once, no worker may take their names, mmi.titanic counts."""
    with titanic_broker(tmp_path) as broker, client_of(*broker.endpoints) as client:
        there = [client.call("mmi.service", b"titanic." + name) for name in (b"request", b"reply", b"close", b"x")]
        submit(client, b"x")
        block_until(lambda: b'"pending":1' in client.call_frames("mmi.titanic", [b""])[1])
    assert there == [b"200", b"200", b"200", b"404"]


def test_a_broken_store_ends_the_broker_loudly() -> None:
    """A programming error in Titanic's thread is no silence: run() raises it, and the command ends."""

    class Broken(MemoryRequestStore):
        async def waiting(self) -> list[str]:
            raise AssertionError("simulated")

    titanic = TitanicPlan(lambda: nullcontext(Broken()), TitanicOptions())
    program = BrokerProgram([FREE], BrokerOptions(), titanic=titanic)
    with pytest.raises(ExceptionGroup) as found:
        program.run()
    assert found.group_contains(AssertionError, match="simulated")
