"""A service inside the broker's process, without sockets: who asks, who is called, what is refused."""

from __future__ import annotations

import pytest

from hookwire.services.envelope import number_frame
from reqrep.frames import Frames
from reqrep.inside import CallAnswered, RequestTaken
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.inside import Inside
from reqrep.majordomo.options import BrokerOptions, ServicePolicy
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.services import TITANIC_NAMES, TitanicServices
from tests.reqrep.majordomo_peers import C1, W1, E, disconnect_of, reply_of, request_of

REQUEST = b"titanic.request"


def broker(requests_max: int = 10, **options: object) -> Broker:
    return Broker(BrokerOptions(**options), inside=Inside(TITANIC_NAMES, lambda: {"pending": 7}, requests_max))  # type: ignore[arg-type]


def ask(machine: Broker, *body: bytes, client: bytes = b"c1", user: str = "") -> list[Frames]:
    return machine.receive(0, [client, E, C1, REQUEST, *body], user)[0]


def test_a_request_is_handed_over_with_its_user_and_answered_by_its_ticket() -> None:
    """XX-03, TI-22: the reply goes to the client that asked."""
    machine = broker()
    sent = ask(machine, b"echo", b"x", user="alice")
    requests, answers = machine.inside.taken()
    replies, _ = machine.reply_inside(requests[0].ticket, [b"200", b"id"])
    assert (sent, requests, answers) == ([], [RequestTaken(1, REQUEST, [b"echo", b"x"], "alice")], [])
    assert replies == [[b"c1", E, C1, REQUEST, b"200", b"id"]]


def test_a_call_of_this_process_reaches_a_worker_with_the_user_of_the_request() -> None:
    """XX-03, TI-01: a stored request keeps its user; the worker sees a request like any other."""
    machine = broker(policies={"whoami": ServicePolicy(user_frame=True)})
    machine.receive(0, [b"w1", E, W1, b"\x01", b"whoami"])
    sent, _ = machine.call_inside(0, 5, b"whoami", [b"x"], "alice")
    client = sent[0][4]
    machine.receive(0, [b"w1", E, W1, b"\x03", client, E, b"done", b""])
    assert (sent, machine.inside.taken()) == (
        [[b"w1", E, W1, b"\x02", client, E, b"alice", b"x"]], ([], [CallAnswered(5, b"200", [b"done", b""])])
    )  # fmt: skip


def test_a_call_is_told_at_once_that_its_worker_was_lost() -> None:
    """TI-08."""
    machine = broker()
    machine.receive(0, [b"w1", E, W1, b"\x01", b"echo"])
    machine.call_inside(0, 5, b"echo", [b"x"])
    machine.receive(0, [b"w1", E, W1, b"\x05"])
    assert machine.inside.taken()[1] == [CallAnswered(5, b"502", [b"worker-lost"])]


def test_management_answers_a_call_of_this_process() -> None:
    """TI-10."""
    machine = broker()
    for number, name in enumerate((b"echo", REQUEST, b"none")):
        machine.call_inside(0, number, b"mmi.service", [name])
    found = [answer.body for answer in machine.inside.taken()[1]]
    assert found == [[b"404"], [b"200"], [b"404"]]


def test_too_many_requests_under_way_are_dropped_and_counted() -> None:
    """XX-04: a disk that hangs does not fill the memory; a client that asked to be told is told."""
    machine = broker(requests_max=2)
    for client in (b"c1", b"c2", b"c3"):
        ask(machine, b"echo", b"x", client=client)
    told, _ = machine.receive(0, [b"c4", E, C1, b"mmi.call", REQUEST, b"echo", b"x"])
    assert (machine.counters.drops, told) == (
        {"queue-full": 2}, [[b"c4", E, C1, b"mmi.call", b"503", REQUEST, b"queue-full"]]
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(TITANIC_NAMES))
def test_no_worker_may_take_the_name_of_a_service_of_this_process(name: bytes) -> None:
    machine = broker()
    assert machine.receive(0, [b"w1", E, W1, b"\x01", name])[0] == [disconnect_of(b"w1")]


def test_a_broker_without_titanic_lets_a_worker_offer_it() -> None:
    """TI-01: Titanic may be a program of its own, in any language."""
    machine = Broker(BrokerOptions())
    machine.receive(0, [b"w1", E, W1, b"\x01", REQUEST])
    sent = ask(machine, b"echo", b"x")
    replies, _ = machine.receive(0, [b"w1", E, W1, b"\x03", b"c1", E, b"200", b"id"])
    assert (sent, replies) == (
        [[*request_of(b"w1", b"c1")[:6], b"echo", b"x"]], [[*reply_of(b"c1", b"200", REQUEST), b"id"]]
    )  # fmt: skip


async def test_the_number_of_a_pipelined_request_comes_back_and_is_not_stored() -> None:
    """MD-24, TI-21: the mark is that of the SDK."""
    store = MemoryRequestStore()
    number, status, _ = await TitanicServices(store).answer(REQUEST, [number_frame(3), b"echo", b"x"])
    (claimed,) = await store.claim({"echo": 1}, 30)
    assert (number, status, claimed.request.body) == (number_frame(3), b"200", [b"x"])
