"""Simple Pirate and 6/PPP on the machines, with a simulated clock; with them the defects ZD-26 and ZD-27."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reqrep.frames import Frames
from reqrep.pirate.options import QueueOptions
from reqrep.pirate.paranoid_queue import ParanoidQueue
from reqrep.pirate.simple_queue import SimpleQueue
from tests.examples import examples

E = b""


def paranoid(**options: int) -> ParanoidQueue:
    return ParanoidQueue(QueueOptions(**options))


def simple(**options: int) -> SimpleQueue:
    return SimpleQueue(QueueOptions(**options))


def pass_time(queue: ParanoidQueue, start: float, seconds: float) -> list[Frames]:
    """Tick whenever the queue wants it; return what went to workers."""
    out, now = [], start
    while (at := queue.deadline()) is not None and at <= start + seconds:
        now = max(now, at)
        out += queue.tick(now).to_workers
    return out


@pytest.mark.parametrize("ready", [b"\x01", b"READY"])
def test_a_simple_queue_gives_a_request_to_the_worker_that_waits_longest(ready: bytes) -> None:
    """SP-02 to SP-06: both spellings of READY."""
    queue = simple()
    assert not queue.wants_clients
    queue.from_worker(0, [b"w1", E, ready])
    queue.from_worker(0, [b"w2", E, ready])
    assert queue.wants_clients
    assert queue.from_client(0, [b"c", E, b"hello"]).to_workers == [[b"w1", E, b"c", E, b"hello"]]
    assert queue.from_worker(0, [b"w1", E, b"c", E, b"a", b"b"]).to_clients == [[b"c", E, b"a", b"b"]]
    sent = [queue.from_client(0, [client, E, b"x"]).to_workers[0][0] for client in (b"c1", b"c2")]
    assert (sent, queue.wants_clients) == ([b"w2", b"w1"], False)


def test_a_simple_queue_that_was_restarted_knows_no_worker() -> None:
    """SP-07: the documented weakness; a reply of an old worker makes it known again."""
    queue = simple()
    queue.from_client(0, [b"c", E, b"x"])
    assert (dict(queue.counters.drops), queue.workers) == ({"no-worker": 1}, 0)
    queue.from_worker(0, [b"old", E, b"c", E, b"reply"])
    assert queue.wants_clients


def test_a_simple_queue_takes_no_more_workers_than_its_limit() -> None:
    """SP-08."""
    queue = simple(workers_max=2)
    for name in (b"w1", b"w2", b"w3", b"w1"):
        queue.from_worker(0, [name, E, b"\x01"])
    assert (queue.workers, dict(queue.counters.drops)) == (2, {"too-many-workers": 1})


@pytest.mark.parametrize("make", [simple, paranoid], ids=["simple", "paranoid"])
def test_a_request_to_a_dead_worker_goes_to_the_next_one(make: type) -> None:
    """SP-08, ZL-02."""
    queue = make()
    ready = [[name, E, b"\x01"] if make is simple else [name, b"\x01"] for name in (b"w1", b"w2")]
    for frames in ready:
        queue.from_worker(0, frames)
    (request,) = queue.from_client(0, [b"c", E, b"x"]).to_workers
    (again,) = queue.failed(0, request, True, "unreachable").to_workers
    assert (request[0], again[0], again[1:]) == (b"w1", b"w2", request[1:])
    assert queue.failed(0, [b"c", E, b"reply"], False, "unreachable").to_workers == []
    assert dict(queue.counters.drops) == {"worker-unreachable": 1, "client-unreachable": 1}


@pytest.mark.parametrize(("ready", "beat"), [(b"\x01", b"\x02"), (b"READY", b"HEARTBEAT")])
def test_a_paranoid_worker_registers_beats_and_answers(ready: bytes, beat: bytes) -> None:
    """PP-01 to PP-04: no delimiter in control frames, bodies of several frames."""
    queue = paranoid()
    queue.from_worker(0, [b"w", ready])
    assert queue.from_client(0, [b"c", E, b"a", b"b"]).to_workers == [[b"w", b"c", E, b"a", b"b"]]
    queue.from_worker(1, [b"w", beat])
    assert queue.from_worker(2, [b"w", b"c", E, b"x", b"y"]).to_clients == [[b"c", E, b"x", b"y"]]
    assert queue.wants_clients


@pytest.mark.parametrize("frame", [b"\x03", b"", b"HELLO", b"\x01\x01"])
def test_an_unknown_control_frame_makes_no_worker_ready(frame: bytes) -> None:
    """PP-05, ZD-27."""
    queue = paranoid()
    queue.from_worker(0, [b"w", frame])
    assert (queue.workers, queue.wants_clients, dict(queue.counters.drops)) == (0, False, {"unknown-command": 1})


def test_a_heartbeat_of_a_busy_worker_only_refreshes_it() -> None:
    """PP-07, ZD-27."""
    queue = paranoid()
    queue.from_worker(0, [b"w", b"\x01"])
    queue.from_client(0, [b"c", E, b"x"])
    queue.from_worker(1, [b"w", b"\x02"])
    assert (queue.workers, queue.wants_clients) == (1, False)


def test_ready_workers_are_beaten_by_the_clock_alone_and_expire_after_three_intervals() -> None:
    """PP-06, PP-08, ZD-26, HB-03: nothing arrives at the backend."""
    queue = paranoid()
    queue.from_worker(0, [b"w", b"\x01"])
    assert pass_time(queue, 0, 60) == [[b"w", b"\x02"]] * 2
    assert (queue.workers, queue.wants_clients, queue.deadline()) == (0, False, None)


def test_a_second_ready_makes_no_second_entry() -> None:
    """PP-14."""
    queue = paranoid()
    for _ in range(3):
        queue.from_worker(0, [b"w", b"\x01"])
    assert len(queue.from_client(0, [b"c1", E, b"x"]).to_workers) == 1
    assert queue.from_client(0, [b"c2", E, b"x"]).to_workers == []


def test_an_expired_worker_gets_nothing_more_until_it_says_ready() -> None:
    """PP-02, PP-11."""
    queue = paranoid()
    queue.from_worker(0, [b"w", b"\x01"])
    pass_time(queue, 0, 4)
    queue.from_worker(5, [b"w", b"\x02"])
    queue.from_worker(5, [b"w", b"c", E, b"late"])
    assert (queue.workers, dict(queue.counters.drops)) == (0, {"unknown-worker": 1, "reply-without-request": 1})
    queue.from_worker(6, [b"w", b"\x01"])
    assert queue.wants_clients


def test_a_busy_worker_that_is_silent_has_its_limit() -> None:
    queue = paranoid(busy_seconds_max=10)
    queue.from_worker(0, [b"w", b"\x01"])
    queue.from_client(0, [b"c", E, b"x"])
    pass_time(queue, 0, 9)
    assert queue.workers == 1
    pass_time(queue, 9, 3)
    assert queue.workers == 0


def test_a_queue_that_was_stopped_for_a_while_does_not_blame_its_workers() -> None:
    """HB-02."""
    queue = paranoid()
    queue.from_worker(0, [b"w", b"\x01"])
    queue.tick(1_000)
    assert queue.workers == 1


def test_the_text_edition_is_sent_on_request() -> None:
    """SP-02."""
    queue = ParanoidQueue(QueueOptions(sends_text=True))
    queue.from_worker(0, [b"w", b"READY"])
    assert queue.tick(1.0).to_workers == [[b"w", b"HEARTBEAT"]]


FRAMES = st.lists(st.binary(max_size=6) | st.sampled_from([E, b"\x01", b"\x02", b"w", b"c"]), max_size=6)


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), FRAMES, st.sampled_from([0.0, 0.5, 4.0])), max_size=30))
@pytest.mark.parametrize("make", [simple, paranoid], ids=["simple", "paranoid"])
def test_no_message_stops_a_queue(make: type, steps: list[tuple[bool, Frames, float]]) -> None:
    """SP-08, B-58: afterwards it still serves, and a worker has one request at a time."""
    queue, now, busy = make(), 0.0, set()
    for from_worker, frames, seconds in steps:
        now += seconds
        queue.tick(now)
        if from_worker:
            busy -= {frames[0]} if frames else set()
            queue.from_worker(now, frames)
        else:
            for sent in queue.from_client(now, frames).to_workers:
                assert sent[0] not in busy
                busy.add(sent[0])
    queue.from_worker(now, [b"fresh", E, b"\x01"] if make is simple else [b"fresh", b"\x01"])
    for _ in range(40):
        sent = queue.from_client(now, [b"client", E, b"x"]).to_workers
        if sent and sent[0][0] == b"fresh":
            return
    raise AssertionError("the new worker got no request")
