"""The broker on real sockets: what the machine's tests cannot show."""

import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hookwire.services.client import Client
from hookwire.services.error import ClientClosed, NoReply
from hookwire.services.worker import Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram
from reqrep.transport import AddressRefused, Poll, SocketOptions, Transport
from tests.reqrep.running import FAST, FREE, WAIT_SECONDS, client_of, running_broker, running_worker, threaded
from tests.waiting import block_until


@pytest.mark.parametrize("client_version", ["0.1", "0.2"])
@pytest.mark.parametrize("worker_version", ["0.1", "0.2"])
def test_clients_and_workers_of_both_versions_meet_on_one_socket(client_version: str, worker_version: str) -> None:
    """MD-08, M2-05, M2-06."""
    with (
        running_broker() as broker,
        running_worker(*broker.endpoints, version=worker_version),
        client_of(*broker.endpoints, version=client_version) as client,
    ):
        replies = [client.call_frames("echo", [b"%d" % number, b"", b"\x00"]) for number in range(50)]
    assert replies == [[b"%d" % number, b"", b"\x00"] for number in range(50)]


def test_a_call_without_an_answer_ends_in_an_explicit_failure() -> None:
    """LP-06, MD-23: no hang, and its late reply is never delivered to a later call."""
    with running_broker() as broker, client_of(*broker.endpoints, timeout_seconds=0.1, tries=2) as client:
        with pytest.raises(NoReply, match="'echo': no reply"):
            client.call("echo", b"1")
        with running_worker(*broker.endpoints), client_of(*broker.endpoints) as patient:
            assert patient.call("echo", b"2") == b"2"
            assert client.call("mmi.service", b"echo") == b"200"


def test_a_worker_finds_the_broker_again_after_it_was_replaced() -> None:
    """MD-15, MD-26, MD-27: the new broker knows nobody; a retrying client succeeds."""
    with running_broker() as broker:
        (endpoint,) = broker.endpoints
    with running_worker(endpoint), client_of(endpoint, timeout_seconds=0.5, tries=100) as client:
        for number in range(3):
            with running_broker(endpoint):
                assert client.call("echo", b"%d" % number) == b"%d" % number


def test_a_client_that_is_closed_by_another_thread_ends_with_its_own_error() -> None:
    """MD-33."""
    with running_broker() as broker, client_of(*broker.endpoints, timeout_seconds=60) as client:
        closer = threading.Timer(0.2, client.close)
        closer.start()
        with pytest.raises(ClientClosed):
            client.call("nobody", b"x")
        closer.join()


def test_a_stub_with_a_decorator_calls_the_service() -> None:
    with running_broker() as broker, running_worker(*broker.endpoints), client_of(*broker.endpoints) as client:

        @client.service("echo")
        def echo(body: bytes) -> bytes:
            """Return the body."""
            raise AssertionError

        assert (echo(b"typed"), echo.__name__, echo.__doc__) == (b"typed", "echo", "Return the body.")


def test_a_reply_to_a_client_that_left_is_counted_and_the_worker_goes_on() -> None:
    """MD-29, ZL-02: it leaves once the broker has its request."""
    with running_broker() as broker, client_of(*broker.endpoints) as client:
        leaving = Transport()
        peer = leaving.socket("dealer", SocketOptions())
        peer.connect(*broker.endpoints)
        peer.send([b"", b"MDPC01", b"echo", b"gone"])
        block_until(lambda: stats(client)["totals"].get("requests") == 1)
        leaving.close()
        with running_worker(*broker.endpoints):
            assert client.call("echo", b"here") == b"here"
        drops = stats(client)["drops"]
    assert drops == {"client-unreachable": 1}


def stats(client: Client) -> dict[str, Any]:
    status, text = client.call_frames("mmi.stats", [b""])
    assert status == b"200"
    found: dict[str, Any] = json.loads(text)
    return found


def test_nothing_that_a_stranger_writes_to_the_port_stops_the_broker() -> None:
    """B-58, XX-04: bytes that are no ZMTP, a frame above the limit, a message of too many frames."""
    options = BrokerOptions(heartbeat_seconds=0.2)
    transport = Transport()
    with running_broker(options=options) as broker, running_worker(*broker.endpoints):
        (endpoint,) = broker.endpoints
        with socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2])), WAIT_SECONDS) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        stranger = transport.socket("dealer", SocketOptions(frame_bytes_max=-1))
        stranger.connect(endpoint)
        for frames in ([b""] * 2000, [b"", b"MDPC01", b"echo", b"x" * 2_000_000], [b"junk"]):
            stranger.send(frames)
        huge = transport.socket("dealer", SocketOptions(frame_bytes_max=-1))
        huge.connect(endpoint)
        huge.send([b"", b"MDPC01", b"echo", b"x" * 40_000_000])
        with client_of(endpoint) as client:
            assert client.call("echo", b"alive") == b"alive"
    transport.close()


def test_an_endpoint_that_is_taken_is_refused_with_its_name() -> None:
    with running_broker() as broker, pytest.raises(AddressRefused, match="cannot bind tcp://127"):
        BrokerProgram(broker.endpoints, BrokerOptions())


def test_a_port_above_the_last_is_refused_and_not_divided() -> None:
    """GU-15: libzmq listened on 34463 where 99999 was asked for."""
    with pytest.raises(AddressRefused, match="a port is at most 65535"):
        BrokerProgram(["tcp://127.0.0.1:99999"], BrokerOptions())


def test_a_worker_closes_with_its_last_reply_sent() -> None:
    """ZL-07: stopped while it works, it answers, says DISCONNECT and leaves; the broker would miss it after 90 s."""
    patient = BrokerOptions(heartbeat_seconds=30)
    with running_broker(options=patient) as broker, client_of(*broker.endpoints) as client:
        entered, may_end = threading.Event(), threading.Event()
        slow = Worker(*broker.endpoints, heartbeat=FAST)

        @slow.service("slow")
        def answer(body: bytes) -> bytes:
            entered.set()
            may_end.wait(WAIT_SECONDS)
            slow.stop()
            return body

        with threaded(slow.run, slow.stop):
            threading.Thread(target=lambda: entered.wait(WAIT_SECONDS) and may_end.set()).start()
            assert client.call("slow", b"last") == b"last"
        block_until(lambda: client.call("mmi.service", b"slow") == b"404")


def test_a_free_port_is_reported() -> None:
    with running_broker(FREE) as broker:
        assert not broker.endpoints[0].endswith("*")


def test_of_two_peers_with_one_identity_the_newer_stays() -> None:
    """MD-28, ZL-05: libzmq would ignore it in silence; a restarted peer must not wait for a half-open connection."""
    transport, wait = Transport(), Poll()
    with running_broker() as broker:
        answers = []
        for _ in range(2):
            peer = transport.socket("dealer", SocketOptions(identity=b"twin"))
            peer.connect(*broker.endpoints)
            wait.add(peer)
            peer.send([b"", b"MDPC01", b"mmi.service", b"echo"])
            wait.wait(WAIT_SECONDS)
            answers.append(peer.receive())
    wait.close()
    transport.close()
    assert answers == [[b"", b"MDPC01", b"mmi.service", b"404"]] * 2


@pytest.mark.parametrize("folder", ["reqrep", "sdk/src/hookwire/services"])
def test_no_protocol_reads_the_wall_clock_or_sleeps(folder: str) -> None:
    """HB-09, ZD-29: a step of the clock must neither expire peers nor keep them for ever."""
    everything = sorted((Path(__file__).parents[2] / folder).rglob("*.py"))
    files = [
        file for file in everything if file.parent.name != "bridge"
    ]  # which signs, and shows times of the database
    found = [file.name for file in files if re.search(r"time\.time\(|datetime|time\.sleep\(", file.read_text())]
    assert (len(files) > 10, found) == (True, [])
