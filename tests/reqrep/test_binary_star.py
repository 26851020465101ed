"""Binary Star: every cell of its table, a simulated pair, and a real pair of brokers."""

import json

import pytest
import zmq
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reqrep.binary_star.server import BinaryStarServer
from reqrep.binary_star.state import BinaryStar, BinaryStarOptions, PeerState, Role
from reqrep.majordomo.program import PairPlan
from reqrep.reactor import Reactor
from reqrep.transport import Transport
from runtime.port import free_port
from tests.examples import examples
from tests.reqrep.running import FREE, WAIT_SECONDS, client_of, running_broker, running_worker
from tests.waiting import block_until

ROLES: tuple[Role, ...] = ("primary", "backup")
P, B, ACTIVE, PASSIVE = PeerState.PRIMARY, PeerState.BACKUP, PeerState.ACTIVE, PeerState.PASSIVE


def star(state: PeerState, role: Role = "primary", **options: str) -> BinaryStar:
    machine = BinaryStar(role, 0, BinaryStarOptions(**options))  # type: ignore[arg-type]
    machine.state = state
    return machine


# --- the table -------------------------------------------------------------------------------------------------

TABLE = {
    P: {1: P, 2: ACTIVE, 3: PASSIVE, 4: P, "fresh": (P, False), "expired": (ACTIVE, True)},
    B: {1: B, 2: B, 3: PASSIVE, 4: B, "fresh": (B, False), "expired": (B, False)},
    ACTIVE: {1: ACTIVE, 2: ACTIVE, 3: "dual", 4: ACTIVE, "fresh": (ACTIVE, True), "expired": (ACTIVE, True)},
    PASSIVE: {1: ACTIVE, 2: ACTIVE, 3: PASSIVE, 4: "dual", "fresh": (PASSIVE, False), "expired": (ACTIVE, True)},
}
CELLS = [(state, event, result) for state, row in TABLE.items() for event, result in row.items()]


@pytest.mark.parametrize(("state", "event", "result"), CELLS, ids=[f"{s.name}-{e}" for s, e, _ in CELLS])
def test_each_cell_of_the_table(state: PeerState, event: int | str, result: object) -> None:
    """BS-01, BS-03, BS-04, BS-05, BS-07, BS-09."""
    machine = star(state, on_dual="stop")
    if event in ("fresh", "expired"):
        vote = machine.client(0.5 if event == "fresh" else 1.99)
        if event == "expired":
            machine.tick(1.99)
            vote = machine.client(2.0)
        assert (machine.state, vote.serve) == result
    else:
        _, events = machine.peer(0.5, [b"%d" % int(event)])
        if result == "dual":
            assert (machine.state, machine.must_stop) == (state, True)
            assert events[0].kind == f"dual-{state.name.lower()}"
        else:
            assert (machine.state, machine.must_stop) == (result, False)


@pytest.mark.parametrize(
    ("role", "both", "after"),
    [
        ("primary", ACTIVE, ACTIVE),
        ("backup", ACTIVE, PASSIVE),
        ("primary", PASSIVE, ACTIVE),
        ("backup", PASSIVE, PASSIVE),
    ],
)
def test_of_two_in_one_state_the_configured_primary_is_active_afterwards(
    role: Role, both: PeerState, after: PeerState
) -> None:
    """BS-08."""
    machine = star(both, role)
    machine.peer(0.5, [b"%d" % both])
    assert (machine.state, machine.must_stop) == (after, False)


@pytest.mark.parametrize("frames", [[], [b""], [b"5"], [b"33"], [b"x"], [b"3", b""], [b"\x03"]])
def test_a_malformed_state_neither_counts_nor_refreshes_the_peer(frames: list[bytes]) -> None:
    """BS-19, ZD-20."""
    machine = star(PASSIVE)
    for tenth in range(1, 20):
        machine.peer(tenth / 10, frames)
    assert machine.client(2.0).serve


@pytest.mark.parametrize(("role", "state"), [("primary", b"1"), ("backup", b"2")])
def test_two_sides_of_one_role_are_reported(role: Role, state: bytes) -> None:
    """BS-18: nobody serves."""
    machine = BinaryStar(role, 0)
    _, events = machine.peer(0.5, [state])
    assert ([event.kind for event in events], machine.client(1).serve) == (["misconfigured"], False)


def test_two_sides_of_one_role_are_reported_once_a_minute() -> None:
    """GM-12 a: there was a line each second."""
    machine = BinaryStar("primary", 0)
    events = [event for second in range(1, 130) for event in machine.peer(second, [b"1"])[1]]
    assert [event.kind for event in events] == ["misconfigured"] * 3


def test_only_an_operator_makes_a_backup_alone_active() -> None:
    """BS-04."""
    machine = BinaryStar("backup", 0)
    for second in range(1, 100):
        machine.tick(second)
        assert not machine.client(second).serve
    assert [event.kind for event in machine.promote(100)] == ["active"]
    assert machine.client(100.1).serve


def test_the_state_is_published_each_interval_and_shown_to_people() -> None:
    """BS-12, BS-21, ZL-06."""
    machine = BinaryStar("primary", 0)
    sent = [machine.tick(tenth / 10)[0] for tenth in range(31)]
    assert [frames for frames in sent if frames] == [[[b"1"]]] * 4
    machine.peer(3.0, [b"2"])
    assert machine.status(3.5) == {
        "role": "primary", "state": "active", "peer_state": "backup", "peer_age_seconds": 0.5, "transitions": 1,
    }  # fmt: skip


def test_a_change_of_the_state_is_published_at_once() -> None:
    """BS-04: a backup that has not heard of an active primary never serves, also where the primary dies at once."""
    machine = star(P)
    machine.tick(0)
    machine.peer(0.1, [b"2"])
    due_at = machine.deadline()
    published, _ = machine.tick(0.1)
    assert (due_at, published, machine.deadline()) == (0.1, [[b"3"]], 1.1)


def test_an_active_side_that_was_stopped_steps_down_before_it_serves() -> None:
    """XX-05: SIGSTOP and SIGCONT; states of its peer that waited meanwhile are old."""
    machine = star(ACTIVE)
    machine.tick(1)
    assert not machine.client(10).serve
    for old in (b"1", b"2", b"4"):
        machine.peer(10.1, [old])
    assert machine.state is PASSIVE
    machine.peer(11, [b"3"])
    assert machine.state is PASSIVE
    machine.peer(12, [b"4"])
    assert machine.state is ACTIVE


# --- a pair on one simulated network ---------------------------------------------------------------------------


class Pair(RuleBasedStateMachine):
    """Two sides that may be killed, restarted and stopped; a client that asks. Never are two active that run.

    Messages arrive at once, and each side is looked at each tenth of a second, as on one healthy network.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sides: dict[Role, BinaryStar | None] = {
            "primary": BinaryStar("primary", 0),
            "backup": BinaryStar("backup", 0),
        }
        self.stopped: set[Role] = set()
        self.waiting: dict[Role, list[list[bytes]]] = {"primary": [], "backup": []}
        self.switches = 0

    def running(self) -> list[BinaryStar]:
        return [side for role, side in self.sides.items() if side is not None and role not in self.stopped]

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5, 4.0]), asks=st.booleans())
    def pass_time(self, seconds: float, asks: bool) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            for role, side in self.sides.items():
                if side is None or role in self.stopped:
                    continue
                for frames in self.waiting[role]:
                    side.peer(self.now, frames)
                self.waiting[role] = []
                other: Role = "backup" if role == "primary" else "primary"
                for frames in side.tick(self.now)[0]:
                    if self.sides[other] is not None:
                        self.waiting[other].append(frames)
            if asks:
                served = [side for side in self.running() if side.client(self.now).serve]
                assert len(served) <= 1, "two sides served one client"

    @rule(role=st.sampled_from(["primary", "backup"]))
    def kill(self, role: Role) -> None:
        self.sides[role], self.waiting[role] = None, []
        self.stopped.discard(role)

    @rule(role=st.sampled_from(["primary", "backup"]))
    def restart(self, role: Role) -> None:
        if self.sides[role] is None:
            self.sides[role] = BinaryStar(role, self.now)

    @rule(role=st.sampled_from(["primary", "backup"]))
    def stop(self, role: Role) -> None:
        if self.sides[role] is not None:
            self.stopped.add(role)

    @rule(role=st.sampled_from(["primary", "backup"]))
    def go_on(self, role: Role) -> None:
        self.stopped.discard(role)

    @invariant()
    def at_most_one_is_active(self) -> None:
        now = self.now
        assert sum(side.client(now).serve for side in self.running()) <= 1


def test_a_primary_that_was_stopped_shortly_before_its_message_does_not_serve_beside_its_backup() -> None:
    """BS-03: its backup counts from the last message, which was nearly an interval old when the stop began."""
    pair = Pair()
    pair.pass_time(seconds=1.0, asks=False)
    pair.at_most_one_is_active()
    pair.stop("primary")
    pair.pass_time(seconds=0.3, asks=False)
    pair.pass_time(seconds=1.0, asks=False)
    pair.at_most_one_is_active()
    pair.go_on("primary")
    pair.at_most_one_is_active()


TestPair = Pair.TestCase
TestPair.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)


def test_two_hundred_switches_never_leave_two_active() -> None:
    """XX-05, BS-05, BS-06, BS-07, BS-13, BS-14, ZP-35: kill the active side, ask, restart it."""
    pair, switches, gaps = Pair(), 0, []
    pair.pass_time(2.5, True)
    while switches < 200:
        (active,) = [role for role, side in pair.sides.items() if side is not None and side.state is ACTIVE]
        killed_at = pair.now
        pair.kill(active)
        while not any(side.state is ACTIVE for side in pair.running()):
            pair.pass_time(0.1, True)
        gaps.append(pair.now - killed_at)
        switches += 1
        pair.restart(active)
        pair.pass_time(2.5, True)
    assert max(gaps) <= 3.1


# --- the reactor and a real pair -------------------------------------------------------------------------------


def endpoint() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def test_the_handlers_run_once_for_each_transition_and_a_second_voter_is_refused() -> None:
    """BS-02, BS-10, BS-20: a request that is rejected is read and discarded."""
    reactor, transport = Reactor(), Transport()
    options = BinaryStarOptions(heartbeat_seconds=0.05)
    calls, served = [], []
    side = BinaryStarServer("primary", FREE, endpoint(), reactor, transport, options)
    side.on_active(lambda: calls.append("active"))
    side.on_passive(lambda: calls.append("passive"))
    bound = side.voter(FREE, lambda _, frames: (served.append(frames[1:]), reactor.stop())[0])
    with pytest.raises(RuntimeError, match="voter"):
        side.voter(FREE, lambda _, frames: None)
    client = transport.socket("dealer")
    client.connect(bound)
    reactor.timer(0.02, lambda now: client.send([b"request"]) and None)
    reactor.run()
    assert (calls, served[0], side.machine.state) == (["active"], [b"request"], ACTIVE)
    side.close()
    transport.close()
    reactor.close()


@pytest.mark.parametrize(("subscription_bytes", "found"), [(0, "a state"), (1_000, "cut off")])
def test_a_peer_with_long_subscriptions_is_cut_off(subscription_bytes: int, found: str) -> None:
    """GS-04: 20,000 subscriptions of 2 kB at the endpoint of the state took 98 MB, also after their peer had left."""
    reactor, transport = Reactor(), Transport()
    side = BinaryStarServer("primary", FREE, endpoint(), reactor, transport, BinaryStarOptions(heartbeat_seconds=0.05))
    peer = transport.socket("sub")
    peer.raw.setsockopt(zmq.SUBSCRIBE, b"x" * subscription_bytes)
    monitor = peer.raw.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    peer.connect(side.endpoint)
    happened: set[str] = set()

    def look(now: float) -> None:
        if monitor.poll(0):
            happened.add("cut off")
        elif peer.receive() is not None and not subscription_bytes:
            happened.add("a state")
        if happened or now > deadline:
            reactor.stop()

    deadline = reactor.clock() + WAIT_SECONDS
    reactor.timer(0.02, look)
    reactor.run()
    for closing in (side, transport, reactor):
        closing.close()
    assert happened == {found}


def test_a_real_pair_of_brokers_moves_its_clients_and_back() -> None:
    """BS-06, BS-07, BS-13, BS-15, BS-21, MD-34, ZU-22: workers register at both; mmi.stats has the state."""
    options = BinaryStarOptions(heartbeat_seconds=0.1)
    front = {"primary": endpoint(), "backup": endpoint()}
    states = {"primary": endpoint(), "backup": endpoint()}
    plans = {
        "primary": PairPlan("primary", states["primary"], states["backup"], options),
        "backup": PairPlan("backup", states["backup"], states["primary"], options),
    }
    call = {"timeout_seconds": 0.5, "tries": 100, "pause_seconds": 0.3}
    with (
        running_worker(*front.values()),
        client_of(*front.values(), **call) as client,
        running_broker(front["backup"], pair=plans["backup"]) as backup,
    ):
        with running_broker(front["primary"], pair=plans["primary"]) as primary:
            replies = [client.call("echo", b"1")]
            await_state(backup, "passive")
            assert states_of(primary, backup) == ["active", "passive"]
        replies += [client.call("echo", b"2")]
        assert states_of(backup) == ["active"]
        with running_broker(front["primary"], pair=plans["primary"]) as primary:
            await_state(primary, "passive")
            replies += [client.call("echo", b"3")]
            assert state_in_stats(front["primary"]) == "passive"
            backup.stop()
            replies += [client.call("echo", b"4")]
            assert states_of(primary) == ["active"]
    assert replies == [b"1", b"2", b"3", b"4"]


def state_in_stats(address: str) -> str:
    with client_of(address) as operator:
        _, text = operator.call_frames("mmi.stats", [b""])
    return str(json.loads(text)["state"]["state"])


def states_of(*programs: object) -> list[object]:
    return [program.state()["state"] for program in programs]  # type: ignore[attr-defined]


def await_state(program: object, wanted: str) -> None:
    block_until(lambda: states_of(program) == [wanted], WAIT_SECONDS)
