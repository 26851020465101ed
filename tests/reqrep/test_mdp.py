"""7/MDP section by section, on the machine and a simulated clock; with it the defects ZD-01 to ZD-10 and B-58."""

import pytest

from reqrep.majordomo.options import OptionsRefused, ServicePolicy, policies_from
from tests.reqrep.majordomo_peers import C1, W1, E, Peers, disconnect_of, heartbeat_of, reply_of, request_of


def test_a_request_goes_to_the_worker_and_its_reply_to_the_client() -> None:
    """MD-01 to MD-07, MM-05: the reply names the service that was asked."""
    peers = Peers()
    assert peers.ready(b"w") == []
    assert peers.request(b"c") == [request_of(b"w", b"c")]
    assert peers.reply(b"w", b"c", b"world") == [reply_of(b"c", b"world")]


def test_bodies_of_several_empty_and_binary_frames_pass_unchanged() -> None:
    peers = Peers()
    peers.ready(b"w")
    body = [b"", b"\x00\xff", b"", b"x" * 1000]
    assert peers.send(b"c", E, C1, b"echo", *body) == [[b"w", E, W1, b"\x02", b"c", E, *body]]
    assert peers.send(b"w", E, W1, b"\x03", b"c", E, *body) == [[b"c", E, C1, b"echo", *body]]


def test_the_worker_that_waits_longest_gets_the_next_request() -> None:
    """MD-11, MD-12: oldest first, one request for each worker."""
    peers = Peers()
    for worker in (b"w1", b"w2", b"w3"):
        peers.ready(worker)
    sent = [peers.request(client)[0][0] for client in (b"c1", b"c2")]
    peers.reply(b"w1", b"c1")
    sent += [peers.request(client)[0][0] for client in (b"c3", b"c4")]
    assert sent == [b"w1", b"w2", b"w3", b"w1"]
    assert peers.request(b"c5") == []


def test_requests_wait_in_order_until_a_worker_is_free() -> None:
    """MD-10, MD-11."""
    peers = Peers()
    for client in (b"c1", b"c2", b"c3"):
        assert peers.request(client) == []
    assert peers.ready(b"w") == [request_of(b"w", b"c1")]
    assert peers.reply(b"w", b"c1") == [reply_of(b"c1"), request_of(b"w", b"c2")]
    assert peers.reply(b"w", b"c2") == [reply_of(b"c2"), request_of(b"w", b"c3")]


def test_a_request_expires_in_the_queue() -> None:
    """MD-10, ZD-05: no reference broker expires requests."""
    peers = Peers(policy=ServicePolicy(request_seconds_max=10))
    peers.request(b"c1")
    peers.wait(6)
    peers.request(b"c2")
    peers.wait(5)
    assert peers.drops == {"expired": 1}
    assert peers.ready(b"w") == [request_of(b"w", b"c2")]


def test_a_user_may_limit_the_queue_of_a_service_in_requests() -> None:
    """MD-10, XX-04: ``test_budget`` has the limits in bytes."""
    peers = Peers(policy=ServicePolicy(queue_requests_max=3))
    for client in (b"c1", b"c1", b"c2", b"c3"):
        peers.request(client)
    assert (peers.drops, len(peers.broker.services[b"echo"].queue)) == ({"queue-full": 1}, 3)


def test_a_second_ready_disconnects_the_worker_and_removes_it_everywhere() -> None:
    """MD-13, ZD-04."""
    peers = Peers()
    peers.ready(b"w")
    assert peers.ready(b"w") == [disconnect_of(b"w")]
    assert peers.request(b"c") == []
    assert (peers.broker.workers, peers.mmi(b"service", b"echo")) == ({}, [b"404"])


def test_a_worker_of_a_reserved_name_is_disconnected() -> None:
    """MD-14, ZD-07: the name of the service decides, not the address of the sender."""
    peers = Peers()
    assert peers.ready(b"w", b"mmi.service") == [disconnect_of(b"w")]
    assert peers.ready(b"mmi.w", b"echo") == []
    assert peers.mmi(b"service", b"echo") == [b"200"]


@pytest.mark.parametrize("command", [b"\x04", b"\x03"], ids=["heartbeat", "reply"])
def test_an_unknown_worker_is_disconnected_so_that_it_registers_again(command: bytes) -> None:
    """MD-15, MD-26: how all workers come back after the broker was killed."""
    peers = Peers()
    arguments = [b"c", E, b"late"] if command == b"\x03" else []
    assert peers.send(b"w", E, W1, command, *arguments) == [disconnect_of(b"w")]
    assert peers.drops == {"unknown-worker": 1}


@pytest.mark.parametrize("state", ["unknown", "idle", "busy"])
def test_a_worker_may_leave_in_any_state(state: str) -> None:
    """MD-16, ZD-01: the guide's Python broker dies when a busy worker leaves."""
    peers = Peers()
    if state != "unknown":
        peers.ready(b"w")
    if state == "busy":
        peers.request(b"c")
    assert peers.leave(b"w") == []
    assert peers.request(b"c2") == []
    assert peers.wait(7) == []
    assert peers.drops == ({"worker-lost": 1} if state == "busy" else {})


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_any_command_counts_as_heartbeat(state: str) -> None:
    """MD-17."""
    peers = Peers()
    peers.ready(b"w")
    peers.wait(7)
    peers.request(b"c")
    peers.wait(7)
    peers.reply(b"w", b"c")
    peers.wait(7)
    assert list(peers.broker.workers) == [b"w"]
    peers.wait(0.6)
    assert list(peers.broker.workers) == []


def test_heartbeats_go_to_idle_workers_once_per_interval_and_stop_when_the_worker_is_gone() -> None:
    """MD-18, MD-19, HB-03, HB-04, XX-01: 2.5 s three times."""
    peers = Peers()
    peers.ready(b"w")
    assert peers.wait(60) == [heartbeat_of(b"w")] * 2
    assert (peers.broker.workers, [event.detail for event in peers.events if event.kind == "worker-gone"]) == (
        {},
        ["expired"],
    )


def test_no_heartbeat_goes_to_a_worker_while_requests_flow() -> None:
    """MD-19, HB-05."""
    peers = Peers()
    peers.ready(b"w")
    sent = []
    for _ in range(20):
        peers.request(b"c")
        sent += peers.wait(1.2)
        peers.reply(b"w", b"c")
        sent += peers.wait(1.2)
    assert sent == []


def test_an_idle_worker_is_beaten_on_time_after_a_long_request() -> None:
    """HB-03: the interval counts from the last message to the worker."""
    peers = Peers()
    peers.ready(b"w")
    peers.wait(0.9)
    peers.request(b"c")
    peers.wait(3.2)
    peers.reply(b"w", b"c")
    beats = []
    for _ in range(50):
        if peers.wait(0.1):
            beats.append(round(peers.now, 1))
        peers.heartbeat(b"w")
    assert len(beats) == 2
    assert beats[1] - beats[0] == pytest.approx(2.5, abs=0.11)  # the clock of this test moves by 0.1


def test_every_silent_worker_expires_although_others_live() -> None:
    """MD-20, ZD-05, ZD-06: several in one pass, also behind a live one."""
    peers = Peers()
    for worker in (b"w1", b"w2", b"w3", b"w4"):
        peers.ready(worker)
    for _ in range(4):
        peers.wait(2)
        peers.heartbeat(b"w1")
        peers.heartbeat(b"w3")
    assert list(peers.broker.workers) == [b"w1", b"w3"]


def test_a_busy_worker_that_beat_while_it_worked_is_lost_by_silence() -> None:
    """MD-21: two heartbeats in one request prove it; a single one may have crossed the request."""
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c")
    peers.wait(2.5)
    peers.heartbeat(b"w")
    peers.wait(2.5)
    peers.heartbeat(b"w")
    peers.wait(7.4)
    assert list(peers.broker.workers) == [b"w"]
    peers.wait(2.6)
    assert (list(peers.broker.workers), peers.drops) == ([], {"worker-lost": 1})


def test_a_busy_worker_of_the_guide_has_until_the_busy_limit() -> None:
    """MD-21: such a worker sends nothing while it works; one heartbeat may have crossed the request."""
    peers = Peers(policy=ServicePolicy(busy_seconds_max=900))
    peers.ready(b"w")
    peers.request(b"c")
    peers.heartbeat(b"w")
    peers.wait(899)
    assert list(peers.broker.workers) == [b"w"]
    peers.wait(2)
    assert list(peers.broker.workers) == []


def test_a_worker_that_gets_a_waiting_request_at_once_is_watched_too() -> None:
    """MD-21: found by the mutated messages; such a worker was never looked at again."""
    peers = Peers(policy=ServicePolicy(busy_seconds_max=20))
    peers.request(b"c")
    assert peers.ready(b"w") == [request_of(b"w", b"c")]
    peers.wait(21)
    assert list(peers.broker.workers) == []


def test_an_idempotent_request_is_run_by_another_worker_before_all_others() -> None:
    """MD-21: redispatch is a policy of the service; it ends after ``tries_max``."""
    peers = Peers(policies={"echo": ServicePolicy(idempotent=True, tries_max=2)})
    peers.ready(b"w1")
    peers.request(b"c1", b"first")
    peers.request(b"c2", b"second")
    assert peers.leave(b"w1") == []
    assert peers.ready(b"w2") == [request_of(b"w2", b"c1", b"first")]
    peers.leave(b"w2")
    assert peers.drops == {"worker-lost": 1}
    assert peers.ready(b"w3") == [request_of(b"w3", b"c2", b"second")]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([], "too-few-frames"),
        ([E], "too-few-frames"),
        ([E, C1], "no-body"),
        ([E, C1, b"echo"], "no-body"),
        ([b"x", C1, b"echo", b"hello"], "unknown-header"),
        ([E, b"MDPC99", b"echo", b"hello"], "unknown-header"),
        ([E, W1], "unknown-command"),
        ([E, W1, b""], "unknown-command"),
        ([E, W1, b"\x77"], "unknown-command"),
        ([E, W1, b"\x01"], "wrong-frame-count"),
        ([E, W1, b"\x04", b"x"], "wrong-frame-count"),
        ([E, W1, b"\x03", b"c", b"x", b"y"], "bad-envelope"),
        ([E, C1, E, b"hello"], "bad-service-name"),
        ([E, C1, b"a\x00b", b"hello"], "bad-service-name"),
        ([E, C1, b"n" * 256, b"hello"], "bad-service-name"),
        ([E, C1, b"echo", *[b""] * 80], "too-many-frames"),
    ],
)
def test_a_malformed_message_is_dropped_with_its_reason_and_the_broker_lives(frames: list[bytes], reason: str) -> None:
    """MD-25, B-58, ZD-02, ZD-08: the guide's brokers stop or register the sender."""
    peers = Peers()
    assert peers.send(b"peer", *frames) == []
    assert (peers.drops, peers.broker.workers, peers.broker.services) == ({reason: 1}, {}, {})
    peers.ready(b"peer")
    assert peers.request(b"c") == [request_of(b"peer", b"c")]


def test_a_worker_that_sends_nonsense_is_disconnected() -> None:
    """MD-25: the sender is treated as invalid; its request counts as lost."""
    peers = Peers(policy=ServicePolicy(idempotent=True))
    peers.ready(b"w1")
    peers.request(b"c")
    peers.ready(b"w2")
    assert peers.send(b"w1", E, W1, b"\x77") == [disconnect_of(b"w1"), request_of(b"w2", b"c")]


@pytest.mark.parametrize("known", [False, True])
def test_a_command_in_the_wrong_direction_is_answered_with_disconnect(known: bool) -> None:
    """MD-25: valid but unexpected."""
    peers = Peers()
    if known:
        peers.ready(b"w")
    assert peers.send(b"w", E, W1, b"\x02", b"c", E, b"x") == [disconnect_of(b"w")]
    assert peers.broker.workers == {}


@pytest.mark.parametrize("case", ["idle", "another client", "twice"])
def test_a_reply_without_its_request_is_refused(case: str) -> None:
    """MD-31, ZD-09: reference brokers forward it to any address and list the worker twice."""
    peers = Peers()
    peers.ready(b"w")
    if case != "idle":
        peers.request(b"c")
    if case == "twice":
        peers.reply(b"w", b"c")
    target = b"victim" if case == "another client" else b"c"
    assert peers.reply(b"w", target) == [disconnect_of(b"w")]
    assert (peers.broker.workers, peers.drops["reply-without-request"]) == ({}, 1)


def test_names_that_were_only_asked_for_leave_nothing_behind() -> None:
    """MD-32, ZD-10, ZP-36."""
    peers = Peers(services_max=50)
    for number in range(200):
        peers.request(b"c%d" % number, service=b"name%d" % number)
    assert (len(peers.broker.services), peers.drops) == (50, {"too-many-services": 150})
    peers.wait(61)
    assert (peers.broker.services, peers.broker.budget.held, peers.broker.deadline()) == ({}, 0, None)


def test_a_service_without_workers_is_removed_after_its_time() -> None:
    """MD-32."""
    peers = Peers(service_idle_seconds=30)
    peers.ready(b"w")
    peers.leave(b"w")
    peers.wait(29)
    assert list(peers.broker.services) == [b"echo"]
    peers.wait(2)
    assert peers.broker.services == {}


def test_a_service_may_refuse_at_once_when_it_has_no_worker() -> None:
    """ZU-07 needs it."""
    peers = Peers(policy=ServicePolicy(without_workers="refuse"))
    peers.request(b"c")
    assert (peers.drops, peers.broker.services) == ({"no-workers": 1}, {})


def test_a_client_that_is_gone_is_counted() -> None:
    """MD-29, MD-30, ZL-02, ZL-09."""
    peers = Peers()
    peers.ready(b"w")
    peers.request(b"c")
    (reply,) = peers.reply(b"w", b"c")
    peers.broker.failed(peers.now, reply, "unreachable")
    peers.broker.failed(peers.now, reply, "full")
    assert (peers.drops, list(peers.broker.services[b"echo"].idle)) == (
        {"client-unreachable": 1, "client-full": 1},
        [b"w"],
    )


@pytest.mark.parametrize("reason", ["unreachable", "full"])
def test_a_request_that_cannot_leave_goes_to_another_worker(reason: str) -> None:
    """ZL-01, ZL-09: it never left, so this holds for every service, idempotent or not."""
    peers = Peers()
    peers.ready(b"w1")
    peers.ready(b"w2")
    (request,) = peers.request(b"c")
    out, _ = peers.broker.failed(peers.now, request, reason)
    assert (out, list(peers.broker.workers)) == ([request_of(b"w2", b"c")], [b"w2"])


def test_a_heartbeat_to_a_worker_that_is_gone_removes_it() -> None:
    peers = Peers()
    peers.ready(b"w")
    (beat,) = peers.wait(2.5)
    peers.broker.failed(peers.now, beat, "unreachable")
    assert peers.broker.workers == {}


def test_a_broker_that_was_stopped_for_a_while_does_not_blame_its_workers() -> None:
    """HB-02: SIGSTOP and SIGCONT; the heartbeats wait in the socket."""
    peers = Peers()
    peers.ready(b"w")
    peers.now += 3_600
    peers.broker.tick(peers.now)
    assert list(peers.broker.workers) == [b"w"]
    peers.heartbeat(b"w")
    assert peers.wait(7) == [heartbeat_of(b"w")] * 2


def test_a_planned_stop_tells_every_worker() -> None:
    peers = Peers()
    peers.ready(b"w1")
    peers.ready(b"w2")
    assert peers.broker.stop()[0] == [disconnect_of(b"w1"), disconnect_of(b"w2")]


def test_a_worker_may_get_the_user_of_the_client() -> None:
    """XX-03: the authenticated user is the first frame of the body, by policy."""
    peers = Peers(policies={"who*": ServicePolicy(user_frame=True)})
    peers.ready(b"w", b"whoami")
    sent = peers.request(b"c", b"hello", b"whoami", user="alice")
    assert sent == [[b"w", E, W1, b"\x02", b"c", E, b"alice", b"hello"]]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"echo": {"idempotnt": True}}, "no option 'idempotnt'; choose from"),
        ({"echo": {"tries_max": 0}}, "tries_max = 0 is out of its bounds"),
        ({"echo": {"tries_max": "3"}}, "expected int"),
        ({"echo": 3}, "no table"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_with_its_name(table: dict[str, object], words: str) -> None:
    with pytest.raises(OptionsRefused, match=words):
        policies_from(table)


def test_the_first_pattern_that_matches_gives_the_policy() -> None:
    policies = policies_from({"pay.*": {"idempotent": True}, "*": {"request_seconds_max": 5}})
    peers = Peers(policies=policies)
    found = [peers.broker.options.policy_of(name) for name in (b"pay.refund", b"echo")]
    assert found == [ServicePolicy(idempotent=True), ServicePolicy(request_seconds_max=5)]
