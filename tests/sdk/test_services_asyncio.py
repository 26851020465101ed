"""hookwire.services on asyncio and in threads, against a real broker."""

import asyncio
import contextlib

import pytest

from hookwire.services.async_client import AsyncClient, AsyncPipeline
from hookwire.services.async_worker import AsyncWorker
from hookwire.services.envelope import number_frame
from hookwire.services.error import ClientClosed, NoReply
from hookwire.services.machine import Answered, Connect, GaveUp, Stray
from hookwire.services.mdp import MDP_01, Version
from hookwire.services.pipeline import Pipeline, Reply
from hookwire.services.pipeline_machine import PipelineMachine
from hookwire.services.retry_client import RetryOptions
from hookwire.services.worker import Worker
from tests.reqrep.running import (
    FAST,
    PATIENT,
    PATIENT_BROKER,
    WAIT_SECONDS,
    client_of,
    running_broker,
    running_worker,
    threaded,
)

A, B = "tcp://a:1", "tcp://b:2"


# --- the windowed machine --------------------------------------------------------------------------------------


def reply_to(number: int, body: bytes) -> list[bytes]:
    return [b"", b"MDPC01", b"echo", number_frame(number), body]


def test_replies_come_in_any_order_and_are_told_apart_by_number() -> None:
    """MD-24."""
    machine = PipelineMachine(RetryOptions((A,)), window=2)
    machine.submit(0, b"echo", [b"a"])
    machine.submit(0, b"echo", [b"b"])
    with pytest.raises(RuntimeError, match="window is full"):
        machine.submit(0, b"echo", [b"c"])
    found = [machine.receive(1, reply_to(number, body)).events for number, body in ((2, b"B"), (1, b"A"), (1, b"A"))]
    assert found == [[Answered(2, [b"B"])], [Answered(1, [b"A"])], [Stray("answered-already")]]


def test_a_silent_broker_is_left_and_everything_outstanding_is_sent_to_the_next() -> None:
    """MD-24: kept until answered, resent on fail-over."""
    machine = PipelineMachine(RetryOptions((A, B), timeout_seconds=2, tries=2))
    for at in (0.0, 1.0):
        machine.submit(at, b"echo", [b"x"])
    step = machine.tick(2)
    assert (step.events, len(step.frames)) == ([Connect(B)], 2)
    assert machine.tick(4).events == [GaveUp(1, "no reply"), GaveUp(2, "no reply")]
    assert machine.deadline() is None


def test_one_slow_request_is_repeated_alone_while_others_are_answered() -> None:
    machine = PipelineMachine(RetryOptions((A, B), timeout_seconds=2))
    machine.submit(0, b"echo", [b"slow"])
    machine.submit(1, b"echo", [b"quick"])
    machine.receive(1.5, reply_to(2, b"quick"))
    step = machine.tick(2)
    assert (step.events, step.frames) == ([], [MDP_01.client_message(b"echo", [number_frame(1), b"slow"])])


@pytest.mark.parametrize(
    "frames", [[], [b"", b"MDPC01", b"echo", b"no number"], [b"junk"], [b"MDPC02", b"\x03", b"echo", number_frame(1)]]
)
def test_a_reply_without_a_number_is_a_stray(frames: list[bytes]) -> None:
    machine = PipelineMachine(RetryOptions((A,)))
    machine.submit(0, b"echo", [b"x"])
    assert [type(event) for event in machine.receive(1, frames).events] == [Stray]


# --- on real sockets -------------------------------------------------------------------------------------------


def test_many_outstanding_requests_are_all_answered_once() -> None:
    """MD-24, ZD-13, ZL-04: far more requests than the window and the high-water marks; none is lost."""
    patient = running_broker(options=PATIENT_BROKER)
    with patient as broker, running_worker(*broker.endpoints, concurrency=3, heartbeat=PATIENT):
        client = Pipeline(*broker.endpoints, window=100, timeout_seconds=WAIT_SECONDS)
        sent = {client.send("echo", b"%d" % number): b"%d" % number for number in range(5_000)}
        received = [client.receive() for _ in sent]
        with pytest.raises(LookupError):
            client.receive()
        client.close()
    assert sorted(received) == sorted(Reply(number, [body]) for number, body in sent.items())


@pytest.mark.parametrize("kind", [AsyncClient, AsyncPipeline])
async def test_concurrent_calls_of_asyncio_get_their_own_replies(kind: type[AsyncClient | AsyncPipeline]) -> None:
    """MD-24, GU-20: one socket for each stream, or one socket and numbers."""
    with running_broker(options=PATIENT_BROKER) as broker:
        worker = AsyncWorker(*broker.endpoints, heartbeat=PATIENT)

        @worker.service("echo", concurrency=4)
        async def echo(body: bytes) -> bytes:
            await asyncio.sleep(0)
            return body

        async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            async with kind(*broker.endpoints, window=16, timeout_seconds=WAIT_SECONDS) as client:
                replies = await asyncio.gather(*(client.call("echo", b"%d" % number) for number in range(300)))
            worker.stop()
    assert replies == [b"%d" % number for number in range(300)]


async def test_a_typed_stub_calls_the_service() -> None:
    with running_broker() as broker, running_worker(*broker.endpoints):
        async with AsyncClient(*broker.endpoints, timeout_seconds=WAIT_SECONDS) as client:

            @client.service("echo")
            async def echo(body: bytes) -> bytes:
                """Return the body."""
                raise AssertionError

            assert await echo(b"typed") == b"typed"


@pytest.mark.parametrize("kind", [AsyncClient, AsyncPipeline])
async def test_a_call_without_an_answer_ends_in_an_explicit_failure(kind: type[AsyncClient | AsyncPipeline]) -> None:
    """LP-06, MD-33: also when it is cancelled or the client closes."""
    with running_broker() as broker:
        async with kind(*broker.endpoints, timeout_seconds=0.1, tries=2) as client:
            with pytest.raises(NoReply, match="'nobody': no reply"):
                await client.call("nobody", b"x")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.call("nobody", b"x")
        async with asyncio.TaskGroup() as tasks:
            client = kind(*broker.endpoints, timeout_seconds=WAIT_SECONDS)
            call = tasks.create_task(caught(client.call("nobody", b"x")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            client.close()
        assert isinstance(call.result(), ClientClosed | NoReply)


async def caught(call: object) -> object:
    try:
        return await call  # type: ignore[misc]
    except (ClientClosed, NoReply) as error:
        return error


@pytest.mark.parametrize("version", ["0.1", "0.2"])
async def test_a_handler_that_fails_ends_the_request_and_not_the_worker(version: str) -> None:
    """MD-21, MD-33."""
    with running_broker() as broker:
        worker = AsyncWorker(*broker.endpoints, heartbeat=FAST, version=version)  # type: ignore[arg-type]

        @worker.service("half")
        async def half(body: bytes) -> bytes:
            return b"%d" % (int(body) // 2)

        async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            async with AsyncClient(*broker.endpoints, timeout_seconds=0.3, tries=2) as client:
                with contextlib.suppress(NoReply):
                    await client.call("half", b"not a number")
            async with AsyncClient(*broker.endpoints, timeout_seconds=WAIT_SECONDS) as client:
                assert await client.call("half", b"8") == b"4"
            worker.stop()


def test_a_generator_streams_partial_replies() -> None:
    """M2-02, M2-03, M2-04: parts in order, one end; a client of 0.1 gets them joined (M2-06)."""
    with running_broker() as broker:
        worker = Worker(*broker.endpoints, heartbeat=FAST, version="0.2")
        worker.frames_service("count")(lambda body: (b"%d" % number for number in range(int(body[0]))))
        with threaded(worker.run, worker.stop):
            with client_of(*broker.endpoints, version="0.2") as client:
                assert list(client.stream("count", b"5")) == [b"0", b"1", b"2", b"3", b"4"]
            with client_of(*broker.endpoints) as client:
                assert client.call_frames("count", [b"3"]) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("version", "parts"), [("0.2", [b"1", 2, b"3"]), ("0.1", [b"1", b"2"])])
def test_parts_that_cannot_be_sent_end_the_request_and_not_the_worker(version: Version, parts: list[bytes]) -> None:
    """M2-02, MD-21: a part that is not bytes, and partial replies in 0.1."""
    with running_broker() as broker:
        worker = Worker(*broker.endpoints, heartbeat=FAST, version=version, reconnect_seconds=0.1)
        worker.frames_service("parts")(lambda _: iter(parts))
        worker.frames_service("echo")(lambda frames: frames)
        with threaded(worker.run, worker.stop):
            with client_of(*broker.endpoints, timeout_seconds=1.0, tries=1) as client, pytest.raises(NoReply):
                client.call("parts", b"x")
            with client_of(*broker.endpoints) as client:
                assert client.call("echo", b"x") == b"x"


def test_a_worker_registers_at_all_brokers_and_a_client_finds_the_one_that_lives() -> None:
    """MD-34, ZU-24: live-live brokers; no Binary Star is needed."""
    with running_broker() as first, running_broker() as second:
        endpoints = (*first.endpoints, *second.endpoints)
        with running_worker(*endpoints), client_of(*endpoints, timeout_seconds=0.5, tries=100) as client:
            replies = [client.call("echo", b"1")]
            first.stop()
            replies += [client.call("echo", b"2"), client.call("echo", b"3")]
    assert replies == [b"1", b"2", b"3"]


def test_a_worker_without_a_service_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one endpoint and one service"):
        Worker("tcp://127.0.0.1:1").run()
