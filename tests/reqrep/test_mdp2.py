"""18/MDP as written, and how it meets 0.1 on one socket."""

import pytest

from reqrep.majordomo.options import ServicePolicy
from tests.reqrep.majordomo_peers import C1, C2, W1, W2, E, Peers

REQUEST_2 = [b"c", C2, b"\x01", b"count", b"3"]


def ready(peers: Peers) -> None:
    peers.send(b"w", W2, b"\x01", b"count")


def test_parts_go_to_the_client_as_they_come_and_the_worker_is_idle_after_the_last() -> None:
    """M2-01, M2-02, M2-03, M2-04: no empty frame in front anywhere."""
    peers = Peers()
    ready(peers)
    assert peers.send(*REQUEST_2) == [[b"w", W2, b"\x02", b"c", E, b"3"]]
    assert peers.send(b"w", W2, b"\x03", b"c", E, b"1") == [[b"c", C2, b"\x02", b"count", b"1"]]
    assert peers.mmi(b"list")[1].count(b'"idle":0') == 1
    assert peers.send(b"w", W2, b"\x04", b"c", E, b"2") == [[b"c", C2, b"\x03", b"count", b"2"]]
    assert peers.mmi(b"list")[1].count(b'"idle":1') == 1


def test_nothing_goes_to_the_client_after_the_last_part() -> None:
    """M2-04."""
    peers = Peers()
    ready(peers)
    peers.send(*REQUEST_2)
    peers.send(b"w", W2, b"\x04", b"c", E, b"end")
    assert peers.send(b"w", W2, b"\x03", b"c", E, b"more") == [[b"w", W2, b"\x06"]]


def test_a_waiting_request_is_sent_when_the_last_part_has_come() -> None:
    """ZD-28: the reference forgets it."""
    peers = Peers()
    ready(peers)
    peers.send(*REQUEST_2)
    peers.send(b"c2", C2, b"\x01", b"count", b"x")
    assert peers.send(b"w", W2, b"\x04", b"c", E, b"end") == [
        [b"c", C2, b"\x03", b"count", b"end"],
        [b"w", W2, b"\x02", b"c2", E, b"x"],
    ]


@pytest.mark.parametrize(("partials", "body"), [("join", [b"1", b"2", b"end"]), ("drop", [b"end"])])
def test_a_client_of_0_1_gets_the_parts_joined_or_not_at_all(partials: str, body: list[bytes]) -> None:
    """M2-06."""
    peers = Peers(partials=partials)
    ready(peers)
    peers.send(b"c", E, C1, b"count", b"3")
    for part in (b"1", b"2"):
        assert peers.send(b"w", W2, b"\x03", b"c", E, part) == []
    assert peers.send(b"w", W2, b"\x04", b"c", E, b"end") == [[b"c", E, C1, b"count", *body]]
    assert peers.drops == ({} if partials == "join" else {"partial": 2})


def test_a_client_of_0_2_gets_the_reply_of_a_0_1_worker_as_final() -> None:
    """M2-06."""
    peers = Peers()
    peers.ready(b"w", b"count")
    assert peers.send(*REQUEST_2) == [[b"w", E, W1, b"\x02", b"c", E, b"3"]]
    assert peers.reply(b"w", b"c", b"end") == [[b"c", C2, b"\x03", b"count", b"end"]]


def test_heartbeat_and_disconnect_have_the_numbers_of_0_2() -> None:
    """M2-03, M2-05."""
    peers = Peers()
    ready(peers)
    assert peers.wait(2.5) == [[b"w", W2, b"\x05"]]
    assert peers.send(b"w", W2, b"\x01", b"count") == [[b"w", W2, b"\x06"]]


def test_a_worker_that_changes_its_version_is_disconnected() -> None:
    """M2-05."""
    peers = Peers()
    ready(peers)
    assert peers.heartbeat(b"w") == [[b"w", W2, b"\x06"]]
    assert peers.broker.workers == {}


def test_a_request_of_which_a_part_was_seen_is_not_run_again() -> None:
    """M2-04, MD-21: the client would see the part twice."""
    peers = Peers(policy=ServicePolicy(idempotent=True))
    ready(peers)
    peers.send(*REQUEST_2)
    peers.send(b"w", W2, b"\x03", b"c", E, b"1")
    peers.send(b"w2", W2, b"\x01", b"count")
    assert peers.send(b"w", W2, b"\x06") == []
    assert peers.drops == {"worker-lost": 1}
