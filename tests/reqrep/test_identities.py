"""Two workers with one identity: the newer has it, both are named, and they do not take it from each other in turn."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from reqrep.frames import Event
from reqrep.majordomo import server
from reqrep.majordomo.options import BrokerOptions
from reqrep.origin import Origin
from tests.reqrep.majordomo_peers import W1, E, Peers, disconnect_of, request_of
from tests.reqrep.running import WAIT_SECONDS, client_of, running_broker, running_worker
from tests.reqrep.test_examples import ENVIRONMENT
from tests.waiting import block_for, block_until

WORKER = Path(__file__).parents[1] / "ancestors" / "mdworker.py"


class Named(Origin):
    """A connection that the test opens and closes."""

    closed: ClassVar[set[int]] = set()

    def is_open(self) -> bool:
        return self.connection not in self.closed


@pytest.fixture
def connections() -> Iterator[Callable[[Peers, int], None]]:
    """Let the next messages come by the connection of a number."""

    def use(peers: Peers, number: int) -> None:
        peers.broker.origin = lambda: Named(number, f"10.0.0.{number}")

    yield use
    Named.closed.clear()


Use = Callable[[Peers, int], None]


def test_a_newer_connection_takes_the_identity_and_both_are_named(connections: Use) -> None:
    """GB-11, MD-28: the older one cannot be reached any more, so its request is lost."""
    peers = Peers()
    connections(peers, 1)
    peers.ready(b"w")
    peers.request(b"c1")
    connections(peers, 2)
    assert peers.ready(b"w") == []
    assert peers.request(b"c2") == [request_of(b"w", b"c2")]
    (told,) = [event for event in peers.events if event.kind == "identity-taken"]
    words = "10.0.0.2 took the identity of 10.0.0.1; give each worker its own"
    assert (told.service, told.peer, told.detail) == ("echo", "w", words)
    assert peers.drops == {"identity-taken": 1, "worker-lost": 1}


def test_a_worker_with_a_key_gets_nothing_once_its_connection_is_gone(connections: Use) -> None:
    """GS-02, MD-28: another user's connection may have its identity, and nobody can see whose it is."""
    peers = Peers()
    connections(peers, 1)
    for worker in (b"w1", b"w2"):
        peers.send(worker, E, W1, b"\x01", b"echo", user="worker")
    peers.request(b"c1", user="alice")
    Named.closed.add(1)
    asked = peers.request(b"c2", user="alice")
    peers.wait(3)
    assert (asked, dict(peers.broker.workers)) == ([], {})


def test_a_second_ready_of_one_connection_or_of_a_restarted_worker_is_no_second_worker(connections: Use) -> None:
    """MD-13: DISCONNECT, and no word of two workers."""
    peers = Peers()
    connections(peers, 1)
    peers.ready(b"w")
    assert peers.ready(b"w") == [disconnect_of(b"w")]
    peers.ready(b"w")
    Named.closed.add(1)
    connections(peers, 2)
    assert peers.ready(b"w") == [disconnect_of(b"w")]
    assert "identity-taken" not in peers.drops


@contextmanager
def twin(endpoint: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    words = [endpoint, "echo", "--identity", "twin", "--folder", str(folder), "--heartbeat-ms", "200"]
    command = [sys.executable, str(WORKER), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("seconds", [3, pytest.param(290, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_twins_do_not_take_the_identity_from_each_other_in_turn(seconds: float, tmp_path: Path) -> None:
    """GB-11: the first tries again and again; the second serves undisturbed."""
    events: list[Event] = []
    with (
        running_broker(options=BrokerOptions(heartbeat_seconds=0.2), report=events.append) as broker,
        client_of(*broker.endpoints) as client,
        twin(broker.endpoints[0], tmp_path),
    ):
        block_until(lambda: broker.broker.workers, WAIT_SECONDS)
        with twin(broker.endpoints[0], tmp_path) as second:
            block_until(lambda: broker.broker.counters.drops["identity-taken"], WAIT_SECONDS)
            block_for(seconds)
            assert client.call("echo", b"hello") == b"hello"
            assert (tmp_path / f"got-{second.pid}").exists()
            assert broker.broker.counters.drops["identity-taken"] == 1
        assert client.call("echo", b"the first again") == b"the first again"
    assert [event.kind for event in events].count("identity-taken") == 1


def test_after_five_minutes_a_newer_connection_may_take_an_identity_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """MD-28: a restarted peer may replace its half-open connection."""
    monkeypatch.setattr(server, "_SETTLED_SECONDS", 0.1)
    with running_broker() as broker, running_worker(*broker.endpoints):
        said: list[bool] = []
        socket = broker._server._socket
        monkeypatch.setattr(socket, "take_over", said.append)
        broker.reactor.post(lambda _: broker._server._settle())
        block_until(lambda: said == [False, True], WAIT_SECONDS)


def test_a_look_at_a_descriptor_that_is_no_connection_leaves_none_open(tmp_path: Path) -> None:
    """The descriptor is ZeroMQ's: by the time of the look it may belong to a file."""
    with (tmp_path / "file").open("w") as file:
        before = len(os.listdir("/proc/self/fd"))
        found = [Origin(file.fileno()).is_silent(0) for _ in range(20)]
        assert (found, len(os.listdir("/proc/self/fd"))) == ([False] * 20, before)
