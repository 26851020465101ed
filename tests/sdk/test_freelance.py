"""Freelance: 10/FLP on the machines with a simulated clock, then all three models on real sockets."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hookwire.services.client import LazyPirate
from hookwire.services.error import ClientClosed, NoReply
from hookwire.services.freelance import FreelanceBroadcastClient, FreelanceClient, FreelanceReply, ask_in_turn
from hookwire.services.freelance_agent import FreelanceAgent, FreelanceOptions
from hookwire.services.freelance_broadcast import Broadcast
from hookwire.services.machine import Answered, GaveUp, Step, Stray
from hookwire.services.server import FreelanceServer, ReplyServer, answer_freelance
from runtime.port import free_port
from tests.reqrep.running import FREE, WAIT_SECONDS, threaded

A, B, C = "tcp://a:1", "tcp://b:2", "tcp://c:3"
PONG_A, PONG_B, PONG_C = ([server.encode(), b"PONG"] for server in (A, B, C))


def agent(*endpoints: str) -> FreelanceAgent:
    machine = FreelanceAgent()
    for endpoint in endpoints:
        machine.connect(0, endpoint)
    return machine


# --- the server's side -----------------------------------------------------------------------------------------


def test_a_server_answers_ping_and_returns_the_control_frame_unmodified() -> None:
    """FL-05, FL-06."""
    messages = [[b"c", b"PING"], [b"c", b"\x00ctl", b"a", b"b"], [b"c", b"PONG"], [b"c"], [b"c", b"PING", b"x"]]
    assert [answer_freelance(frames, lambda body: [*body, b"!"]) for frames in messages] == [
        [b"c", b"PONG"],
        [b"c", b"\x00ctl", b"a", b"b", b"!"],
        None,
        None,
        [b"c", b"PING", b"x", b"!"],
    ]


# --- model 3 ---------------------------------------------------------------------------------------------------


def test_a_server_is_asked_at_once_and_again_until_it_is_connected() -> None:
    """FL-09, XX-02: no fixed pause; nothing is lost that was sent too early."""
    machine = FreelanceAgent()
    assert machine.connect(0, A).frames == [[A.encode(), b"PING"]]
    machine.failed(0, [A.encode(), b"PING"])
    assert machine.deadline() == pytest.approx(0.01)
    assert machine.request(0.005, [b"early"]) == Step([], [])
    assert machine.tick(0.02).frames == [[A.encode(), b"PING"]]
    assert machine.receive(0.03, PONG_A).frames == [[A.encode(), b"1", b"early"]]


def test_the_first_live_server_gets_the_request_and_none_is_listed_twice() -> None:
    """FL-08, ZD-22."""
    machine = agent(A, B)
    for _ in range(3):
        machine.receive(0.1, PONG_B)
    assert (machine.live, machine.request(0.2, [b"x"]).frames) == ([B], [[B.encode(), b"1", b"x"]])
    machine.receive(0.3, PONG_A)
    assert (machine.live, machine.request(0.4, [b"y"]).frames) == ([A, B], [[A.encode(), b"2", b"y"]])


def test_a_silent_server_is_pinged_then_dead_and_comes_back_when_it_speaks() -> None:
    """FL-07, FL-12: 2 s and 6 s; the machine sleeps until the next deadline."""
    machine, pings = agent(A), []
    machine.receive(0, PONG_A)
    while (at := machine.deadline()) is not None and at <= 8:
        pings += [(at, len(machine.tick(at).frames), list(machine.live))]
    assert pings == [(2, 1, [A]), (4, 1, [A]), (6, 1, []), (8, 1, [])]
    machine.receive(9, PONG_A)
    assert machine.live == [A]


def test_a_request_moves_on_to_each_live_server_once_and_is_given_up_in_time() -> None:
    """FL-07, FL-10, ZD-24: not sent again on every wake-up."""
    machine = agent(A, B, C)
    for pong in (PONG_A, PONG_B, PONG_C):
        machine.receive(0, pong)
    sent = [frames[0] for frames in machine.request(0, [b"x"]).frames]
    events = []
    for tenth in range(1, 40):
        step = machine.tick(tenth / 10)
        sent += [frames[0] for frames in step.frames if frames[1] != b"PING"]
        events += step.events
    assert (sent, events) == ([A.encode(), B.encode(), C.encode()], [GaveUp(1, "no reply")])


def test_a_server_that_cannot_be_reached_costs_no_time() -> None:
    machine = agent(A, B)
    machine.receive(0, PONG_A)
    machine.receive(0, PONG_B)
    (request,) = machine.request(1, [b"x"]).frames
    assert machine.failed(1, request).frames == [[B.encode(), b"1", b"x"]]
    assert machine.live == [B]


@pytest.mark.parametrize(
    "frames",
    [[], [A.encode()], PONG_A, [A.encode(), b"PING"], [A.encode(), b"2", b"x"], [A.encode(), b"01", b"x"],
     [A.encode(), b"0", b""], [b"tcp://stranger:9", b"1", b"x"]],
)  # fmt: skip
def test_nothing_but_the_exact_control_frame_is_a_reply(frames: list[bytes]) -> None:
    """FL-11, ZD-21, ZD-23, ZD-25: PONG is no reply with number 0, garbage and strangers do no harm."""
    machine = agent(A)
    machine.receive(0, PONG_A)
    machine.request(0, [b"x"])
    assert [event for event in machine.receive(1, frames).events if isinstance(event, Answered)] == []
    assert machine.receive(2, [A.encode(), b"1", b"y"]).events == [Answered(1, [b"y"], A)]
    assert machine.receive(2, [A.encode(), b"1", b"y"]).events == [Stray("stale-reply")]


def test_the_request_of_a_server_that_died_goes_to_the_next_at_once() -> None:
    """FL-10."""
    machine = FreelanceAgent(FreelanceOptions(request_seconds_max=60))
    machine.connect(0, A)
    machine.connect(0, B)
    machine.receive(0, PONG_A)
    machine.request(1, [b"x"])
    machine.receive(5, PONG_B)
    assert [B.encode(), b"1", b"x"] in machine.tick(6).frames


def test_several_requests_are_outstanding_at_once_within_the_limit() -> None:
    """FL-14."""
    machine = FreelanceAgent(FreelanceOptions(outstanding_max=2))
    machine.connect(0, A)
    machine.receive(0, PONG_A)
    machine.request(0, [b"x"])
    machine.request(0, [b"y"])
    with pytest.raises(RuntimeError, match="too many outstanding"):
        machine.request(0, [b"z"])
    found = [machine.receive(1, [A.encode(), number, b""]).events[0] for number in (b"2", b"1")]
    assert found == [Answered(2, [b""], A), Answered(1, [b""], A)]


# --- model 2 ---------------------------------------------------------------------------------------------------


def test_the_first_reply_with_the_present_number_wins() -> None:
    """FL-02, FL-03."""
    machine = Broadcast((A, B))
    assert machine.call(0, b"x").sends == [(A, [b"", b"1", b"x"]), (B, [b"", b"1", b"x"])]
    found = [
        machine.receive(1, server, frames).events
        for server, frames in (
            (A, [b"", b"0", b"OK"]), (B, [b"", b"1", b"OK"]), (A, [b"", b"1", b"OK"]), (A, [b"1", b"OK"]),
        )
    ]  # fmt: skip
    assert found == [[Stray("stale-reply")], [Answered(1, [b"OK"], B)], [Stray("stale-reply")], [Stray("malformed")]]
    assert machine.deadline() is None


def test_a_server_that_connects_late_still_gets_the_request_once() -> None:
    """FL-09."""
    machine = Broadcast((A, B))
    machine.call(0, b"x")
    machine.failed(B)
    assert machine.deadline() == pytest.approx(0.01)
    assert machine.tick(0.01).sends == [(B, [b"", b"1", b"x"])]
    assert (machine.deadline(), machine.tick(2.5).events) == (2.5, [GaveUp(1, "no reply")])


# --- on real sockets -------------------------------------------------------------------------------------------


@contextmanager
def reply_servers(count: int) -> Iterator[list[str]]:
    """REP servers of model 2, which also serve model 1."""
    with ExitStack() as stack:
        servers = [ReplyServer(FREE, lambda frames: [frames[0], b"OK", *frames[1:]]) for _ in range(count)]
        for server in servers:
            stack.enter_context(threaded(server.run, server.stop))
        yield [server.endpoint for server in servers]


@contextmanager
def freelance_server(endpoint: str) -> Iterator[FreelanceServer]:
    server = FreelanceServer(endpoint, lambda body: [b"OK", *body])
    with threaded(server.run, server.stop):
        yield server


def dead() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def test_model_1_asks_each_server_once_in_order() -> None:
    """FL-01, LP-12."""
    with reply_servers(1) as (live,):
        reply = ask_in_turn([dead(), live], b"x", timeout_seconds=0.3)
        assert (reply, ask_in_turn([live], b"y", WAIT_SECONDS).frames) == (
            FreelanceReply([b"x", b"OK"], live),
            [b"y", b"OK"],
        )
    with pytest.raises(NoReply, match="none of 3 tries"):
        ask_in_turn([dead()], b"x", timeout_seconds=0.05)


def test_model_2_is_answered_by_the_one_server_of_three_that_lives() -> None:
    """FL-02, FL-09, XX-05: two of three are dead."""
    with reply_servers(1) as (live,):
        client = FreelanceBroadcastClient(dead(), live, dead(), timeout_seconds=WAIT_SECONDS)
        replies = [client.call(b"%d" % number) for number in range(100)]
        client.close()
    assert replies == [FreelanceReply([b"OK", b"%d" % number], live) for number in range(100)]


def test_model_2_drops_the_replies_of_the_slower_servers() -> None:
    """FL-03: two of three replies are redundant traffic."""
    with reply_servers(3) as endpoints:
        client = FreelanceBroadcastClient(*endpoints, timeout_seconds=WAIT_SECONDS)
        for number in range(200):
            assert client.call(b"%d" % number).frames == [b"OK", b"%d" % number]
        client.close()
        assert 0 < client.strays <= 400


def test_model_3_finds_the_live_server_and_follows_when_it_moves() -> None:
    """FL-04, FL-08, FL-10, XX-05: two of three are dead; then the live one dies and another comes."""
    first, second = dead(), dead()
    options = FreelanceOptions(ping_seconds=0.2, dead_seconds=1.0, request_seconds_max=WAIT_SECONDS)
    client = FreelanceClient(dead(), first, second, options=options)
    with freelance_server(second):
        replies = [client.call(b"1")]
    with freelance_server(first):
        replies += [client.call(b"2"), client.call(b"3", b"more")]
    client.close()
    assert replies == [
        FreelanceReply([b"OK", b"1"], second),
        FreelanceReply([b"OK", b"2"], first),
        FreelanceReply([b"OK", b"3", b"more"], first),
    ]


async def test_model_3_serves_threads_and_asyncio_at_once() -> None:
    """FL-14."""
    endpoint = dead()
    with freelance_server(endpoint):
        client = FreelanceClient(endpoint, options=FreelanceOptions(request_seconds_max=WAIT_SECONDS))
        calls = [asyncio.wrap_future(client.submit(b"%d" % number)) for number in range(50)]
        found: list[FreelanceReply] = []
        thread = threading.Thread(target=lambda: found.append(client.call(b"thread")))
        thread.start()
        replies = await asyncio.gather(*calls)
        await asyncio.to_thread(thread.join)
        client.close()
    assert [reply.frames[1] for reply in replies] == [b"%d" % number for number in range(50)]
    assert found == [FreelanceReply([b"OK", b"thread"], endpoint)]


def test_a_cancelled_call_does_not_end_the_client() -> None:
    """The reply of a cancelled future was set, which ended the thread: later calls waited for ever."""
    endpoint = dead()
    client = FreelanceClient(endpoint, options=FreelanceOptions(request_seconds_max=WAIT_SECONDS))
    futures = [client.submit(b"%d" % number) for number in range(10)]
    for future in futures:
        future.cancel()
    with freelance_server(endpoint):
        reply = client.submit(b"x").result(WAIT_SECONDS)
    client.close()
    assert reply == FreelanceReply([b"OK", b"x"], endpoint)


def test_a_client_with_a_cancelled_call_closes_its_socket() -> None:
    client = FreelanceClient(dead(), options=FreelanceOptions(request_seconds_max=WAIT_SECONDS))
    client.submit(b"x").cancel()
    client.close()
    assert client._socket.raw.closed


def test_a_freelance_client_refuses_an_invalid_endpoint() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        FreelanceClient("nonsense")


def test_a_closed_freelance_client_ends_its_calls() -> None:
    client = FreelanceClient(dead(), options=FreelanceOptions(request_seconds_max=WAIT_SECONDS))
    future = client.submit(b"x")
    client.close()
    with pytest.raises(ClientClosed):
        future.result(WAIT_SECONDS)
    with pytest.raises(ClientClosed):
        client.call(b"y")


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, StopIteration], ids=lambda error: error.__name__)
def test_a_server_goes_on_however_its_handler_ends(error: type[BaseException]) -> None:
    """GB-03: the first request has no answer, and its client asks again."""
    asked: list[list[bytes]] = []

    def handle(frames: list[bytes]) -> list[bytes]:
        asked.append(frames)
        if len(asked) == 1:
            raise error
        return frames

    server = ReplyServer(FREE, handle)
    client = LazyPirate(server.endpoint, timeout_seconds=2.0, tries=5)
    with threaded(server.run, server.stop):
        reply = client.call(b"hello")
    client.close()

    assert reply == [b"hello"]
