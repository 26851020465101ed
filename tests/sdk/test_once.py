"""Idempotent services: stamps, and replies in memory and in a database (ID-01 to ID-07)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hookwire.services import MemoryReplyCache, RequestStamps, SqlReplyCache, TitanicClient, Worker, once
from hookwire.services.once import RequestStamp, split_stamp
from hookwire.services.sql_reply_cache import REPLY_TABLE
from reqrep.majordomo.options import ServicePolicy
from tests.reqrep.running import FAST, WAIT_SECONDS, client_of, running_broker, threaded
from tests.reqrep.titanic.peers import titanic_broker
from tests.waiting import block_until

CLIENT = b"0123456789abcdef"


def test_each_request_of_a_client_has_a_stamp_of_its_own() -> None:
    """ID-01."""
    stamps = RequestStamps(CLIENT)
    found = [split_stamp(stamps.stamped(b"a", b"b")) for _ in range(2)]
    assert found == [(RequestStamp(CLIENT, number), [b"a", b"b"]) for number in (1, 2)]
    assert RequestStamps().client_id != RequestStamps().client_id
    with pytest.raises(ValueError, match="16 bytes"):
        RequestStamps(b"short")


@pytest.mark.parametrize("frames", [[], [b""], [b"body"], [b"\x00hookwire-once:short", b"x"]], ids=str)
def test_a_request_without_a_stamp_is_left_alone(frames: list[bytes]) -> None:
    assert split_stamp(frames) == (None, frames)


def counting(runs: list[list[bytes]]) -> Callable[[list[bytes]], list[bytes]]:
    """A handler that numbers its replies."""

    def handle(frames: list[bytes]) -> list[bytes]:
        runs.append(frames)
        return [b"reply %d" % len(runs), b""]

    return handle


def test_a_repeated_request_gets_the_stored_reply_over_the_wire() -> None:
    """ID-02, ID-03: three times the same frames, through a broker; the handler runs once."""
    runs: list[list[bytes]] = []
    stamps = RequestStamps()
    with running_broker() as broker, client_of(*broker.endpoints) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST, reconnect_seconds=0.1)
        worker.frames_service("pay")(once(MemoryReplyCache())(counting(runs)))
        with threaded(worker.run, worker.stop):
            request = stamps.stamped(b"bill")
            same = [client.call_frames("pay", request) for _ in range(3)]
            other = client.call_frames("pay", stamps.stamped(b"bill"))
            plain = client.call_frames("pay", [b"bill"])
    assert (same, other, plain, len(runs)) == (
        [[b"reply 1", b""]] * 3, [b"reply 2", b""], [b"reply 3", b""], 3
    )  # fmt: skip


def test_a_request_that_titanic_stored_twice_runs_once() -> None:
    """ID-03, TI-08: an answer of titanic.request was lost, so the client submitted again."""
    runs: list[list[bytes]] = []
    request = RequestStamps().stamped(b"bill")
    with titanic_broker() as broker, TitanicClient(*broker.endpoints, timeout_seconds=5.0, tries=6) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST, reconnect_seconds=0.1)
        worker.frames_service("pay", concurrency=2)(once(MemoryReplyCache())(counting(runs)))
        with threaded(worker.run, worker.stop):
            ids = [client.submit("pay", *request) for _ in range(2)]
            replies = [client.wait(request_id, WAIT_SECONDS) for request_id in ids]
    assert (replies, len(runs)) == ([[b"reply 1", b""]] * 2, 1)


def together(count: int, work: Callable[[], Any]) -> list[Any]:
    """What it returns in so many threads."""
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    return found


def test_a_duplicate_waits_for_the_first_that_still_runs() -> None:
    """ID-04: one run, and each gets its reply."""
    runs: list[list[bytes]] = []
    begun, go_on = threading.Event(), threading.Event()
    answer = counting(runs)

    def slow(frames: list[bytes]) -> list[bytes]:
        begun.set()
        go_on.wait(WAIT_SECONDS)
        return answer(frames)

    handle, request = once(MemoryReplyCache())(slow), RequestStamps().stamped(b"x")
    healing = threading.Thread(target=lambda: begun.wait(WAIT_SECONDS) and go_on.set())
    healing.start()
    assert (together(4, lambda: handle(request)), len(runs)) == ([[b"reply 1", b""]] * 4, 1)


def test_a_failure_is_not_stored_and_the_duplicate_runs() -> None:
    tries: list[list[bytes]] = []

    def failing(frames: list[bytes]) -> list[bytes]:
        tries.append(frames)
        if len(tries) == 1:
            raise RuntimeError("simulated")
        return [b"done"]

    handle, request = once(MemoryReplyCache())(failing), RequestStamps().stamped(b"x")
    with pytest.raises(RuntimeError):
        handle(request)
    assert (handle(request), handle(request), len(tries)) == ([b"done"], [b"done"], 2)


@pytest.mark.parametrize("bounds", [{"replies_max": 2}, {"bytes_max": 20}], ids=["replies", "bytes"])
def test_the_oldest_reply_is_forgotten_at_the_bound_and_its_request_runs_again(bounds: dict[str, int]) -> None:
    """ID-05."""
    runs: list[list[bytes]] = []
    stamps = RequestStamps()
    handle = once(MemoryReplyCache(**bounds))(counting(runs))
    first, second, third = (stamps.stamped(b"x") for _ in range(3))
    replies = [handle(each)[0] for each in (first, second, third, third, second, first)]
    assert replies == [b"reply 1", b"reply 2", b"reply 3", b"reply 3", b"reply 2", b"reply 4"]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[[], Any], str]:
    """How to connect to a database with the table of replies and one of payments, and its placeholder."""
    connect: Callable[[], Any]
    if request.param == "sqlite":
        kind, placeholder = "blob", "?"

        def connect() -> Any:
            return sqlite3.connect(tmp_path / "payments", timeout=WAIT_SECONDS)

    else:
        url = request.getfixturevalue("database_url")
        kind, placeholder = "bytea", "%s"

        def connect() -> Any:
            return psycopg.connect(url)

    connection = connect()
    connection.execute(REPLY_TABLE.format(bytes=kind))
    connection.execute("CREATE TABLE payments (bill varchar(20))")
    connection.commit()
    connection.close()
    return connect, placeholder


def bills(connect: Callable[[], Any]) -> list[str]:
    connection = connect()
    found = [row[0] for row in connection.execute("SELECT bill FROM payments").fetchall()]
    connection.close()
    return found


def test_effect_and_reply_are_one_transaction(database: tuple[Callable[[], Any], str]) -> None:
    """ID-06: a handler that fails after its effect leaves neither; the repeated request has the effect once."""
    connect, placeholder = database
    tries: list[bytes] = []
    cache = SqlReplyCache(connect, placeholder)

    @cache.once
    def pay(connection: Any, frames: list[bytes]) -> list[bytes]:
        connection.execute(f"INSERT INTO payments (bill) VALUES ({placeholder})", (frames[0].decode(),))
        tries.append(frames[0])
        if len(tries) == 1:
            raise RuntimeError("killed between effect and reply")
        return [b"paid", b"\x00\xff", b""]

    request = RequestStamps().stamped(b"bill 7")
    with pytest.raises(RuntimeError):
        pay(request)
    before = bills(connect)
    replies = [pay(request) for _ in range(3)]
    assert (before, replies, bills(connect), len(tries)) == ([], [[b"paid", b"\x00\xff", b""]] * 3, ["bill 7"], 2)


def test_duplicates_at_the_same_time_have_one_effect(database: tuple[Callable[[], Any], str]) -> None:
    """ID-04, ID-06: the second waits for the first one's transaction."""
    connect, placeholder = database

    @SqlReplyCache(connect, placeholder).once
    def pay(connection: Any, frames: list[bytes]) -> list[bytes]:
        connection.execute(f"INSERT INTO payments (bill) VALUES ({placeholder})", (frames[0].decode(),))
        return [b"paid"]

    request = RequestStamps().stamped(b"bill 8")
    assert (together(4, lambda: pay(request)), bills(connect)) == ([[b"paid"]] * 4, ["bill 8"])


def test_old_replies_are_forgotten_and_requests_without_a_stamp_are_not_kept(
    database: tuple[Callable[[], Any], str],
) -> None:
    """ID-05."""
    connect, placeholder = database
    now = [1_000.0]
    cache = SqlReplyCache(connect, placeholder, lambda: now[0])
    runs: list[bytes] = []
    handle = cache.once(lambda connection, frames: runs.append(frames[0]) or [b"done"])  # type: ignore[func-returns-value]
    stamps = RequestStamps()
    old = stamps.stamped(b"old")
    handle(old)
    handle([b"plain"])
    now[0] += 100
    handle(stamps.stamped(b"new"))
    gone = cache.forget(50)
    handle(old)
    assert (gone, runs) == (1, [b"old", b"plain", b"new", b"old"])


def test_the_broker_repeats_a_lost_request_only_for_a_service_that_is_declared_idempotent() -> None:
    """ID-07, MD-21: the flag is the service's policy; Titanic repeats in any case, because it promised an execution."""
    runs: dict[bytes, int] = {b"idem": 0, b"plain": 0}

    def handler(body: bytes) -> bytes:
        runs[body] += 1
        if runs[body] == 1:
            raise RuntimeError("simulated")
        return body

    policies = {"idem": ServicePolicy(idempotent=True)}
    with titanic_broker(policies=policies) as broker, client_of(*broker.endpoints) as client:
        worker = Worker(*broker.endpoints, heartbeat=FAST, reconnect_seconds=0.1)
        for name in ("idem", "plain"):
            worker.service(name)(handler)
        with threaded(worker.run, worker.stop):
            block_until(lambda: client.call("mmi.service", b"plain") == b"200")
            statuses = [client.call_frames("mmi.call", [name, name])[0] for name in (b"idem", b"plain")]
            runs[b"plain"] = 0
            with TitanicClient(*broker.endpoints, timeout_seconds=5.0, tries=6) as titanic:
                stored = titanic.call("plain", b"plain")
    assert (statuses, stored, runs) == ([b"200", b"502"], b"plain", {b"idem": 2, b"plain": 2})
