"""A worker that is lost while it holds a request: the broker's heartbeats find the end of its connection."""

import socket

import pytest

from app.chaos.seeded_bugs import SEEDED_BUGS
from hookwire.services.mdp import MDP_02
from hookwire.services.worker_machine import WorkerMachine
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.options import ServicePolicy
from reqrep.origin import Origin
from tests.faults.packets import drop_what_comes
from tests.reqrep.majordomo_peers import W1, E, Peers, heartbeat_of, reply_of, request_of
from tests.waiting import block_until


def refuse_heartbeats(
    peers: Peers, seconds: float, reason: str = "unreachable", worker: bytes = b"w"
) -> list[list[bytes]]:
    """Let the time pass while the socket refuses the worker's heartbeats; return what else the broker sends."""
    end, sent = peers.now + seconds, []
    while (at := peers.broker.deadline()) is not None and at <= end:
        peers.now = max(peers.now, at)
        out, _ = peers.broker.tick(peers.now)
        for frames in out:
            if frames == heartbeat_of(worker):
                out_later, events = peers.broker.failed(peers.now, frames, reason)
                sent += out_later
                peers.events += events
            else:
                sent.append(frames)
    peers.now = end
    return sent


def test_a_busy_worker_gets_heartbeats_too() -> None:
    """GM-01: a refused one is how the broker learns that the worker's process is gone."""
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c")
    assert peers.wait(8) == [heartbeat_of(b"w")] * 3


def test_a_worker_whose_connection_is_gone_loses_its_request_within_a_beat() -> None:
    """GM-01, MD-21: one second after the request, the process of a worker that never beats ends."""
    peers = Peers(policies={"echo": ServicePolicy(idempotent=True)})
    peers.ready(b"w1")
    peers.request(b"c")
    peers.ready(b"w2")
    peers.wait(1)
    sent = refuse_heartbeats(peers, 2.0, worker=b"w1")
    assert [frames for frames in sent if frames != heartbeat_of(b"w2")] == [request_of(b"w2", b"c")]


def test_a_full_pipe_to_a_busy_worker_is_no_loss() -> None:
    """MD-30: a worker that computes for an hour reads no heartbeat meanwhile."""
    peers = Peers(policy=ServicePolicy(busy_seconds_max=7_200))
    peers.ready(b"w")
    peers.request(b"c")
    assert refuse_heartbeats(peers, 3_600, "full") == []
    assert peers.reply(b"w", b"c") == [reply_of(b"c")]


def test_a_reply_that_was_sent_before_the_end_of_the_connection_counts() -> None:
    """GM-01: it may wait in the socket when the heartbeat is refused. So the first refusal is no loss."""
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c")
    refuse_heartbeats(peers, 2.5)
    assert peers.reply(b"w", b"c") == [reply_of(b"c")]
    assert refuse_heartbeats(peers, 0.2) == []
    assert (peers.broker.workers, "worker-lost" in peers.drops) == ({}, False)


def test_a_worker_that_connects_again_between_two_heartbeats_keeps_its_request() -> None:
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c")
    refuse_heartbeats(peers, 2.5)
    assert peers.wait(5) == [heartbeat_of(b"w")] * 2
    assert list(peers.broker.workers) == [b"w"]


@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "without"])
def test_a_lost_request_is_not_one_that_never_left(seeded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """GM-01: the worker may have executed it, so only an idempotent service's request runs again."""
    monkeypatch.setattr(Broker, "_on_refused_heartbeat", Broker._on_refused_heartbeat)  # restored afterwards
    if seeded:
        SEEDED_BUGS["lost-as-unsent"]()
    peers = Peers()
    peers.ready(b"w1")
    peers.request(b"c")
    peers.ready(b"w2")
    sent = refuse_heartbeats(peers, 3.0, worker=b"w1")
    assert (request_of(b"w2", b"c") in sent, peers.drops.get("worker-lost", 0)) == ((True, 0) if seeded else (False, 1))


def test_a_worker_of_the_sdk_beats_soon_after_a_request_that_takes_time() -> None:
    """GM-01: two beats tell the broker that this worker sends heartbeats while it works. It hung, and had 900 s."""
    machine = WorkerMachine("tcp://127.0.0.1:5555", b"echo")
    machine.start(9.0)
    machine.receive(10.0, [E, W1, b"\x02", b"c", E, b"slow"])
    assert machine.deadline() == pytest.approx(10.05)
    assert machine.tick(10.05).frames == [[E, W1, b"\x04"]]
    assert machine.tick(10.11).frames == [[E, W1, b"\x04"]]
    assert machine.deadline() == pytest.approx(12.61)
    machine.reply(10.2, 1, [b"done"])
    machine.receive(11.0, [E, W1, b"\x02", b"c", E, b"quick"])
    machine.reply(11.001, 2, [b"done"])
    assert machine.deadline() == pytest.approx(13.501)  # a quick request costs no heartbeat


def test_a_part_of_the_reply_replaces_none_of_the_soon_heartbeats() -> None:
    """Else a worker that hangs after its first part has 900 s, as one that sends no heartbeats."""
    machine = WorkerMachine("tcp://127.0.0.1:5555", b"echo", MDP_02)
    machine.start(9.0)
    machine.receive(10.0, [b"MDPW02", b"\x02", b"c", E, b"slow"])
    machine.partial(10.01, 1, [b"part"])
    soon = machine.deadline()
    beats = [machine.tick(at).frames for at in (10.05, 10.11)]
    machine.partial(10.2, 1, [b"part"])
    assert (soon, machine.deadline()) == (pytest.approx(10.05), pytest.approx(12.7))
    assert beats == [[MDP_02.bare("heartbeat")]] * 2


class Silent(Origin):
    """A connection whose host does not acknowledge any more."""

    def is_silent(self, seconds: float) -> bool:
        return seconds == 5.0


def test_a_busy_worker_behind_a_silent_link_loses_its_request_within_the_liveness() -> None:
    """GM-01: the broker asks the kernel once per heartbeat; an idle worker expires by its own silence."""
    peers = Peers(policies={"echo": ServicePolicy(idempotent=True)})
    peers.broker.origin = Silent
    peers.ready(b"w1")
    assert peers.wait(2.5) == [heartbeat_of(b"w1")]
    peers.request(b"c")
    peers.broker.origin = Origin
    peers.ready(b"w2")
    assert request_of(b"w2", b"c") in peers.wait(2.5)
    assert (list(peers.broker.workers), peers.drops) == ([b"w2"], {"link-silent": 1})


def test_only_a_tcp_connection_with_unacknowledged_bytes_is_silent() -> None:
    """GM-01: the kernel's own record, on real sockets."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as peer:
        ours, _ = listening.accept()
        with ours:
            origin = Origin.of(ours.fileno(), "127.0.0.1")
            idle = origin.is_silent(0.0)
            drop_what_comes(peer)
            ours.sendall(b"heartbeat")
            block_until(lambda: origin.is_silent(0.2))
            assert (idle, origin.is_silent(3_600), origin.is_open()) == (False, False, True)
    assert (origin.is_silent(0.0), origin.is_open(), Origin(0).is_silent(0.0)) == (False, False, False)
