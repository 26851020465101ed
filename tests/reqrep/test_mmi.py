"""8/MMI and its extensions, on the machine."""

import json

import pytest

from reqrep.majordomo.options import ServicePolicy
from tests.reqrep.majordomo_peers import C1, E, Peers, reply_of, request_of


def test_a_service_with_a_registered_worker_is_200_idle_or_busy() -> None:
    """MM-02."""
    peers = Peers()
    answers = [peers.mmi(b"service", b"echo")]
    peers.ready(b"w")
    answers += [peers.mmi(b"service", b"echo")]
    peers.request(b"c")
    answers += [peers.mmi(b"service", b"echo")]
    assert answers == [[b"404"], [b"200"], [b"200"]]


@pytest.mark.parametrize("end", ["leaves", "expires", "was never there"])
def test_a_service_without_a_worker_is_404_at_once(end: str) -> None:
    """MM-04, ZD-03: also for a name that was only requested."""
    peers = Peers()
    peers.request(b"c")
    if end != "was never there":
        peers.ready(b"w")
        peers.reply(b"w", b"c")
        if end == "leaves":
            peers.leave(b"w")
        else:
            peers.wait(7.6)
    assert peers.mmi(b"service", b"echo") == [b"404"]


def test_any_other_name_is_501() -> None:
    """MM-01, MM-03."""
    assert [Peers().mmi(name, b"x") for name in (b"", b"nothing", b"Service")] == [[b"501"]] * 3


def test_mmi_answers_a_dealer_and_a_req_while_the_queue_is_full() -> None:
    """MM-06."""
    peers = Peers(policy=ServicePolicy(queue_requests_max=0))
    peers.request(b"c")
    assert peers.mmi(b"service", b"echo") == [b"404"]
    assert peers.send(b"c2", b"MDPC02", b"\x01", b"mmi.service", b"echo") == [
        [b"c2", b"MDPC02", b"\x03", b"mmi.service", b"404"]
    ]


def test_list_workers_and_stats_are_json() -> None:
    """HB-08, MM-07, MM-08."""
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c")
    peers.wait(2)
    peers.reply(b"w", b"c")
    about = {
        "name": "echo", "workers": 1, "idle": 1, "queued": 0, "disabled": False, "requests": 1, "replies": 1,
        "errors": 0, "busy_seconds": 2.0,
    }  # fmt: skip
    read = {name: [status, json.loads(text)] for name in (b"list", b"workers", b"stats", b"heartbeat")
            for status, text in [peers.mmi(name, b"echo")]}  # fmt: skip
    assert read == {
        b"list": [b"200", [about]],
        b"workers": [b"200", [{"address": "w", "dialect": "0.1", "busy": False}]],
        b"stats": [b"200", about],
        b"heartbeat": [b"200", {"interval_ms": 2500, "liveness": 3}],
    }
    assert [peers.mmi(b"workers", b"x"), peers.mmi(b"stats", b"x")] == [[b"404"]] * 2


def test_the_stats_of_the_broker_hold_every_drop_and_its_state() -> None:
    """ZL-09, BS-21."""
    peers = Peers()
    peers.broker.state = lambda: {"role": "primary"}
    peers.send(b"x", b"junk")
    status, text = peers.mmi(b"stats")
    assert (status, json.loads(text)) == (
        b"200",
        {
            "totals": {"mmi": 1}, "drops": {"unknown-header": 1}, "services": 0, "workers": 0, "queued": 0,
            "queued_bytes": 0, "state": {"role": "primary"},
        },
    )  # fmt: skip


def test_a_disabled_service_takes_no_new_request_until_it_is_enabled() -> None:
    """MM-07."""
    peers = Peers(controllers=frozenset({"*"}))
    peers.ready(b"w")
    assert peers.mmi(b"disable", b"echo") == [b"200"]
    assert peers.request(b"c") == []
    assert peers.mmi(b"enable", b"echo") == [b"200"]
    assert peers.request(b"c") == [request_of(b"w", b"c")]
    assert [peers.mmi(b"disable", b"no"), peers.mmi(b"enable", b"no")] == [[b"404"]] * 2
    assert peers.drops == {"disabled": 1}


def test_only_named_users_may_disable() -> None:
    """XX-03."""
    peers = Peers(controllers=frozenset({"alice"}))
    peers.ready(b"w")
    found = [peers.mmi(b"disable", b"echo", user=user) for user in ("", "bob", "alice")]
    assert found == [[b"403"], [b"403"], [b"200"]]
    assert peers.mmi(b"enable", b"echo", user="") == [b"403"]


def call_of(peers: Peers, *body: bytes) -> list[list[bytes]]:
    return peers.send(b"c", E, C1, b"mmi.call", *body)


def test_a_client_that_wants_to_know_asks_through_mmi_call() -> None:
    """MD-35: a failure is told on request only, and never looks like a reply of the service."""
    peers = Peers(policy=ServicePolicy(request_seconds_max=5, queue_requests_max=1))
    assert call_of(peers, b"echo", b"1") == []
    assert call_of(peers, b"echo", b"2") == [[b"c", E, C1, b"mmi.call", b"503", b"echo", b"queue-full"]]
    assert peers.wait(6) == [[b"c", E, C1, b"mmi.call", b"504", b"echo", b"expired"]]
    peers.ready(b"w")
    assert call_of(peers, b"echo", b"3") == [request_of(b"w", b"c", b"3")]
    assert peers.reply(b"w", b"c", b"4") == [[b"c", E, C1, b"mmi.call", b"200", b"echo", b"4"]]
    call_of(peers, b"echo", b"5")
    assert peers.leave(b"w") == [[b"c", E, C1, b"mmi.call", b"502", b"echo", b"worker-lost"]]
    assert call_of(peers, b"echo")[0][4] == b"400"
    assert call_of(peers, b"mmi.stats", b"x")[0][4:] == [b"400", b"mmi.stats", b"bad-service-name"]


def test_a_plain_request_is_never_answered_with_a_failure() -> None:
    """MD-35."""
    peers = Peers(policy=ServicePolicy(request_seconds_max=5))
    peers.request(b"c")
    assert peers.wait(20) == []
    peers.ready(b"w")
    peers.request(b"c")
    assert peers.reply(b"w", b"c") == [reply_of(b"c")]
