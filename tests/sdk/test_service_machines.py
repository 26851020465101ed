"""Clients and workers of hookwire.services without sockets, on a simulated clock."""

import pytest

from hookwire.services.envelope import number_frame, number_of, split_number
from hookwire.services.machine import Answered, Connect, GaveUp, Leave, Part, Run, Step, Stray
from hookwire.services.mdp import MDP_01, MDP_02
from hookwire.services.pirate import ParanoidWorker, PirateOptions, SimpleWorker, printable_identity
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.retry_client import MajordomoExchange, RetryClient, RetryOptions, SequenceExchange
from hookwire.services.worker_machine import WorkerMachine

E = b""
A, B = "tcp://a:1", "tcp://b:2"
READY = [E, b"MDPW01", b"\x01", b"echo"]
HEARTBEAT = [E, b"MDPW01", b"\x04"]
DISCONNECT = [E, b"MDPW01", b"\x05"]
REQUEST = [E, b"MDPW01", b"\x02", b"client", E, b"hello"]


def lazy(*endpoints: str, **options: float) -> RetryClient:
    return RetryClient(SequenceExchange(), RetryOptions(endpoints or (A,), **options))  # type: ignore[arg-type]


# --- Lazy Pirate -----------------------------------------------------------------------------------------------


def test_a_lazy_pirate_sends_three_times_the_same_request_on_new_sockets_then_gives_up() -> None:
    """LP-01, LP-02, LP-03, LP-06, ZD-12: 7.5 s in all."""
    client = lazy()
    request = [E, b"1", b"hello"]
    assert client.call(0, b"", [b"hello"]) == Step([request], [Connect(A)])
    assert client.tick(2.4) == Step([], [])
    assert client.tick(2.5) == Step([request], [Leave(), Connect(A)])
    assert client.tick(5.0) == Step([request], [Leave(), Connect(A)])
    assert client.tick(7.5) == Step([], [Leave(), GaveUp(1, "no reply")])
    assert (client.is_waiting, client.deadline()) == (False, None)


def test_a_reply_gives_the_next_call_all_its_tries_again() -> None:
    """LP-04, LP-07, ZD-11."""
    client = lazy()
    client.call(0, b"", [b"x"])
    client.tick(2.5)
    assert client.receive(3, [E, b"1", b"y"]) == Step([], [Answered(1, [b"y"])])
    assert client.call(4, b"", [b"z"]) == Step([[E, b"2", b"z"]], [])
    found = [len(client.tick(at).frames) for at in (6.5, 9.0, 11.5)]
    assert found == [1, 1, 0]


@pytest.mark.parametrize("frames", [[E, b"7", b"y"], [E, b"01", b"y"], [b"1", b"y"], [E], []])
def test_another_number_is_reported_and_waiting_goes_on_within_the_same_deadline(frames: list[bytes]) -> None:
    """LP-05."""
    client = lazy()
    client.call(0, b"", [b"x"])
    assert isinstance(client.receive(2, frames).events[0], Stray)
    assert client.deadline() == 2.5


def test_a_late_reply_is_never_delivered_to_a_later_call() -> None:
    """LP-06, LP-08, PP-13: also when it comes to the same machine."""
    client = lazy(tries=1)
    client.call(0, b"", [b"x"])
    client.tick(2.5)
    assert client.receive(3, [E, b"1", b"late"]).events == [Stray("no-call")]
    client.call(4, b"", [b"z"])
    assert client.receive(5, [E, b"1", b"later"]).events == [Stray("wrong-number")]


def test_a_client_of_a_pair_waits_out_the_fail_over_before_it_asks_the_other_side() -> None:
    """BS-13, MD-34: primary first, then backup, then primary again."""
    client = lazy(A, B, timeout_seconds=1, tries=4, pause_seconds=2)
    seen = [client.call(0, b"", [b"x"]).events]
    for at in (1, 3, 4, 6):
        seen.append(client.tick(at).events)
    assert seen == [[Connect(A)], [Leave()], [Connect(B)], [Leave()], [Connect(A)]]
    assert client.receive(6.5, [E, b"1", b"ok"]).events == [Answered(1, [b"ok"])]


def test_a_cancelled_call_leaves_its_socket() -> None:
    client = lazy()
    client.call(0, b"", [b"x"])
    assert client.cancel() == Step([], [Leave(), GaveUp(1, "cancelled")])
    assert client.cancel() == Step([], [])


def test_options_of_a_client_are_checked() -> None:
    with pytest.raises(ValueError, match="at least one endpoint"):
        RetryOptions(())
    with pytest.raises(ValueError, match="tries at least 1"):
        RetryOptions((A,), tries=0)


# --- Majordomo client ------------------------------------------------------------------------------------------


def test_a_majordomo_client_verifies_header_and_service() -> None:
    """MD-02, MD-23."""
    client = RetryClient(MajordomoExchange(), RetryOptions((A,)))
    client.call(0, b"echo", [b"x"])
    found = [
        client.receive(1, frames).events
        for frames in ([E, b"MDPC01", b"other", b"y"], [E, b"MDPW01", b"echo", b"y"], [E, b"MDPC01", b"echo", b"y"])
    ]
    assert found == [[Stray("wrong-service")], [Stray("malformed")], [Answered(1, [b"y"])]]


def test_parts_of_a_reply_move_the_deadline_and_forbid_a_repetition() -> None:
    """M2-02, M2-04: a repeated request would repeat parts that the caller has seen."""
    client = RetryClient(MajordomoExchange(MDP_02), RetryOptions((A,)))
    client.call(0, b"echo", [b"x"])
    assert client.receive(2, [b"MDPC02", b"\x02", b"echo", b"1"]).events == [Part(1, [b"1"])]
    assert client.deadline() == 4.5
    assert client.tick(4.5).events == [Leave(), GaveUp(1, "interrupted after a partial reply")]


# --- Majordomo worker ------------------------------------------------------------------------------------------


def worker() -> WorkerMachine:
    return WorkerMachine(A, b"echo")


def test_a_worker_registers_answers_and_leaves() -> None:
    """MD-03 to MD-06, ZL-07: the last message is sent before the socket closes."""
    machine = worker()
    assert machine.start(0) == Step([READY], [Connect(A)])
    assert machine.receive(1, REQUEST) == Step([], [Run(1, [b"hello"])])
    assert machine.reply(2, 1, [b"world"]).frames == [[E, b"MDPW01", b"\x03", b"client", E, b"world"]]
    assert machine.stop() == Step([], [Leave(tuple(DISCONNECT))])


def test_a_worker_beats_leaves_a_silent_broker_and_comes_back_on_a_new_socket() -> None:
    """HB-01, MD-18, MD-22, MD-27: 3 intervals of 2.5 s, then 2.5 s of pause."""
    machine, seen = worker(), []
    machine.start(0)
    while (at := machine.deadline()) is not None and at <= 12:
        step = machine.tick(at)
        seen.append((at, step.frames, step.events))
    assert seen == [
        (2.5, [HEARTBEAT], []),
        (5.0, [HEARTBEAT], []),
        (7.5, [], [Leave()]),
        (10.0, [READY], [Connect(A)]),
    ]


def test_any_message_of_the_broker_is_a_sign_of_life_and_data_replaces_heartbeats() -> None:
    """HB-05."""
    machine = worker()
    machine.start(0)
    machine.receive(2, HEARTBEAT)
    machine.receive(7, REQUEST)
    machine.reply(8, 1, [b"y"])
    assert machine.deadline() == 10.5


def test_a_worker_beats_while_it_works_and_does_not_judge_the_silent_broker() -> None:
    """MD-19, MD-22: the broker sends nothing to a busy worker."""
    machine = worker()
    machine.start(0)
    machine.receive(0, REQUEST)
    beats = [machine.tick(at).frames for at in (2.5, 5, 7.5, 10, 12.5)]
    assert beats == [[HEARTBEAT]] * 5
    assert machine.reply(13, 1, [b"y"]).frames != []


def test_a_disconnected_worker_registers_again_but_not_in_a_tight_loop() -> None:
    """MD-15, MD-22: at once when it was connected for a while, else after the pause."""
    machine = worker()
    machine.start(0)
    assert machine.receive(5, DISCONNECT).events == [Leave()]
    assert machine.deadline() == 5
    assert machine.tick(5).events == [Connect(A)]
    machine.receive(5.1, DISCONNECT)
    assert machine.deadline() == 7.5


def test_a_reply_of_a_lost_connection_is_dropped() -> None:
    machine = worker()
    machine.start(0)
    machine.receive(1, REQUEST)
    machine.receive(5, DISCONNECT)
    machine.tick(5)
    assert machine.reply(6, 1, [b"y"]) == Step([], [Stray("late-reply")])
    machine.receive(7, REQUEST)
    assert machine.reply(8, 1, [b"old"]) == Step([], [Stray("late-reply")])


def test_a_failed_handler_ends_the_registration_so_that_the_broker_knows() -> None:
    """MD-21."""
    machine = worker()
    machine.start(0)
    machine.receive(1, REQUEST)
    assert machine.abandon(2, 1) == Step([], [Leave(tuple(DISCONNECT))])
    assert machine.tick(2) == Step([READY], [Connect(A)])


@pytest.mark.parametrize("frames", [[], [E], [E, b"MDPW01"], [E, b"MDPW01", b"\x09"], [b"x", b"MDPW01", b"\x04"]])
def test_a_malformed_message_of_the_broker_is_a_stray(frames: list[bytes]) -> None:
    machine = worker()
    machine.start(0)
    assert machine.receive(1, frames) == Step([], [Stray("malformed")])


# --- Pirate workers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sends_text", "ready"), [(False, b"\x01"), (True, b"READY")])
def test_a_simple_worker_is_a_req_socket_on_the_wire(sends_text: bool, ready: bytes) -> None:
    """SP-02, SP-05."""
    machine = SimpleWorker(A, PirateOptions(sends_text=sends_text))
    assert machine.start(0) == Step([[E, ready]], [Connect(A)])
    assert machine.receive(1, [E, b"client", E, b"a", b"b"]) == Step([], [Run(1, [b"a", b"b"])])
    assert machine.reply(2, 1, [b"c"]).frames == [[E, b"client", E, b"c"]]


def test_a_paranoid_worker_doubles_its_pause_up_to_the_limit_and_a_message_resets_it() -> None:
    """PP-09, PP-10, PP-12."""
    machine, pauses = ParanoidWorker(A), []
    machine.start(0)
    for _ in range(8):
        left_at = silence(machine)
        connects_at = machine.deadline() or 0.0
        pauses.append(connects_at - left_at)
        machine.tick(connects_at)
    assert pauses == [1, 2, 4, 8, 16, 32, 32, 32]
    machine.receive(connects_at, [b"\x02"])
    left_at = silence(machine)
    assert (machine.deadline() or 0.0) - left_at == 1


def silence(machine: ParanoidWorker) -> float:
    """Let time pass until the machine leaves its queue; return when."""
    while True:
        now = machine.deadline() or 0.0
        if machine.tick(now).events == [Leave()]:
            return now


@pytest.mark.parametrize("beat", [b"\x02", b"HEARTBEAT"])
def test_a_paranoid_worker_takes_both_spellings_and_bodies_of_several_frames(beat: bytes) -> None:
    """PP-02, PP-03, PP-04."""
    machine = ParanoidWorker(A)
    assert machine.start(0) == Step([[b"\x01"]], [Connect(A)])
    assert machine.receive(1, [beat]) == Step([], [])
    assert machine.receive(1, [b"client", E, b"a", b"b"]) == Step([], [Run(1, [b"a", b"b"])])
    assert machine.tick(2.0).frames == [[b"\x02"]]
    assert machine.reply(2, 1, [b"c", b"d"]).frames == [[b"client", E, b"c", b"d"]]
    assert machine.receive(3, [b"\x07"]) == Step([], [Stray("malformed")])


def test_an_identity_can_be_read() -> None:
    """SP-02."""
    assert printable_identity().decode().isprintable()
    assert len({printable_identity() for _ in range(50)}) > 45


@pytest.mark.parametrize("interval", [0.009, 31])
def test_an_interval_out_of_bounds_is_refused(interval: float) -> None:
    """PP-15: 10 ms to 30 s."""
    with pytest.raises(ValueError, match=r"0\.01 to 30"):
        HeartbeatOptions(interval_seconds=interval)


# --- the number of a request -----------------------------------------------------------------------------------


def test_a_number_travels_in_a_frame_of_its_own() -> None:
    """MD-24."""
    frame = number_frame(7)
    assert (number_of(frame), number_of(b"x"), number_of(frame + b"x")) == (7, None, None)
    assert split_number([frame, b"body"]) == ([frame], [b"body"])
    assert (split_number([frame]), split_number([b"a", b"b"])) == (([], [frame]), ([], [b"a", b"b"]))


def test_both_dialects_read_only_their_own_replies() -> None:
    """M2-05."""
    message = MDP_01.client_message(b"echo", [b"x"])
    assert (MDP_02.read_reply(message), MDP_01.read_reply(message)) == (None, (b"echo", [b"x"], True))
