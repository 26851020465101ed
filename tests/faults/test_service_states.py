"""XX-05: each process of each request-reply pattern is killed and stopped in each state of its protocol.

::

    no-worker   clients wait, and nobody has registered
    idle        a worker or server has answered, and waits
    held        a worker or server has a request and has not answered it
    queued      a further request waits at the broker
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hookwire.services import Client
from tests.faults.calling_client import caller
from tests.faults.test_titanic import titanic_client
from tests.reqrep.running import WAIT_SECONDS
from tests.reqrep.test_examples import endpoint, program
from tests.waiting import block_until

pytestmark = pytest.mark.slow

HELD_PEER, CALLING_CLIENT = (str(Path(__file__).with_name(name)) for name in ("held_peer", "calling_client"))
STRIKES = pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
STRUCK_SECONDS = 1.5
Words = Mapping[str, tuple[str, ...]]


@dataclass
class Harness:
    """The processes of a pattern by role. ``workers``: the roles that answer; ``forgets``: roles whose restart the
    workers do not notice (SP-07). A harness starts nothing by itself."""

    kind: str
    folder: Path
    addresses: tuple[str, ...]
    words: Words
    workers: tuple[str, ...] = ()
    forgets: tuple[str, ...] = ()
    stack: ExitStack = field(default_factory=ExitStack)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def __enter__(self) -> Harness:
        self.stack.enter_context(self.pool)
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.unlink(missing_ok=True)
        self.stack.close()

    @property
    def hold(self) -> Path:
        return self.folder / "hold"

    def start(self, *roles: str) -> None:
        for role in roles:
            self.processes[role] = self.stack.enter_context(program(*self.words[role]))

    def strike(self, role: str, number: signal.Signals) -> None:
        self.processes[role].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[role].wait(WAIT_SECONDS)

    def heal(self, role: str, number: signal.Signals) -> None:
        if number == signal.SIGSTOP:
            self.processes[role].send_signal(signal.SIGCONT)
            return
        self.start(role)
        if role in self.forgets:
            for worker in set(self.workers).intersection(self.processes):
                self.processes[worker].kill()
                self.start(worker)

    def call(self, body: bytes) -> bytes:
        return caller(self.kind, *self.addresses)(body)

    def calling(self, body: bytes) -> Future[bytes]:
        """Call in a thread, by a client of its own."""
        return self.pool.submit(self.call, body)

    def reach(self, state: str) -> list[tuple[Future[bytes], bytes]]:
        """Bring the pattern into a state; return the calls under way, with the replies that they must get."""
        if state == "no-worker":
            self.start(*(role for role in self.words if role not in self.workers))
            return [(self.calling(b"early"), b"early")]
        self.start(*self.words)
        assert self.call(b"warm") == b"warm"
        if state == "idle":
            return []
        self.hold.touch()
        calls = [(self.calling(b"held"), b"held")]
        block_until(lambda: "held" in (self.folder / "started").read_text().splitlines())
        if state == "queued":
            calls.append((self.calling(b"queued"), b"queued"))
            block_until(lambda: self.queued() > 0)
        return calls

    def queued(self) -> int:
        """The requests that wait at a Majordomo broker."""
        client = Client(*self.addresses, timeout_seconds=5.0, tries=6)
        try:
            return int(json.loads(client.call_frames("mmi.stats", [b""])[1])["queued"])
        finally:
            client.close()


def lazy(folder: Path) -> Harness:
    address = endpoint()
    return Harness("lazy", folder, (address,), {"server": (HELD_PEER, "lazy", str(folder), address)}, ("server",))


def freelance(folder: Path) -> Harness:
    """Two servers: a request goes to each of them once (FL-10)."""
    servers = {"server": endpoint(), "second": endpoint()}
    words = {role: (HELD_PEER, "freelance", str(folder), address) for role, address in servers.items()}
    return Harness("freelance", folder, tuple(servers.values()), words, ("server", "second"))


def pirates(kind: str) -> Callable[[Path], Harness]:
    def made(folder: Path) -> Harness:
        front, back = endpoint(), endpoint()
        words = {
            "queue": (f"{kind[0]}pqueue", "--frontend", front, "--backend", back),
            "worker": (HELD_PEER, kind, str(folder), back),
        }
        forgets = ("queue",) if kind == "simple" else ()
        return Harness(kind, folder, (front,), words, ("worker",), forgets)

    return made


def majordomo(folder: Path) -> Harness:
    address = endpoint()
    words = {"broker": ("mdbroker", "--bind", address), "worker": (HELD_PEER, "majordomo", str(folder), address)}
    return Harness("majordomo", folder, (address,), words, ("worker",))


PATTERNS: dict[str, Callable[[Path], Harness]] = {
    "lazy": lazy,
    "simple": pirates("simple"),
    "paranoid": pirates("paranoid"),
    "majordomo": majordomo,
    "freelance": freelance,
}
STATES = [
    *(("lazy", "server", state) for state in ("idle", "held")),
    *((kind, "queue", state) for kind in ("simple", "paranoid") for state in ("no-worker", "idle", "held")),
    *((kind, "worker", state) for kind in ("simple", "paranoid") for state in ("idle", "held")),
    *(("majordomo", "broker", state) for state in ("no-worker", "idle", "held", "queued")),
    *(("majordomo", "worker", state) for state in ("idle", "held", "queued")),
    *(("freelance", "server", state) for state in ("idle", "held")),
]


@STRIKES
@pytest.mark.parametrize(("kind", "role", "state"), STATES, ids=["-".join(case) for case in STATES])
def test_a_process_that_is_struck_in_a_state_of_its_protocol_costs_no_call(
    kind: str, role: str, state: str, number: signal.Signals, tmp_path: Path
) -> None:
    """XX-05, SP-07, PP-12, MD-26: each call under way gets its own reply, and so does a later one."""
    with PATTERNS[kind](tmp_path) as harness:
        calls = harness.reach(state)
        harness.strike(role, number)
        time.sleep(STRUCK_SECONDS)
        harness.heal(role, number)
        harness.hold.unlink(missing_ok=True)
        harness.start(*(role for role in harness.words if role not in harness.processes))
        replies = [call.result(WAIT_SECONDS) for call, _ in calls]
        later = harness.call(b"later")
    assert (replies, later) == ([body for _, body in calls], b"later")


@pytest.mark.parametrize("kind", PATTERNS)
def test_a_client_that_is_killed_while_it_waits_costs_the_others_nothing(kind: str, tmp_path: Path) -> None:
    """XX-05, MD-29: the reply that nobody takes is dropped."""
    with PATTERNS[kind](tmp_path) as harness:
        harness.start(*harness.words)
        harness.hold.touch()
        client = harness.stack.enter_context(program(CALLING_CLIENT, kind, ",".join(harness.addresses), "doomed"))
        block_until(lambda: (tmp_path / "started").exists())
        client.kill()
        client.wait(WAIT_SECONDS)
        harness.hold.unlink()
        replies = [harness.call(b"%d" % number) for number in range(3)]
    assert replies == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", PATTERNS)
def test_a_client_that_is_stopped_while_it_waits_gets_its_reply_when_it_goes_on(kind: str, tmp_path: Path) -> None:
    """XX-05, HB-07."""
    with PATTERNS[kind](tmp_path) as harness:
        harness.start(*harness.words)
        harness.hold.touch()
        client = harness.stack.enter_context(program(CALLING_CLIENT, kind, ",".join(harness.addresses), "patient"))
        block_until(lambda: (tmp_path / "started").exists())
        client.send_signal(signal.SIGSTOP)
        harness.hold.unlink()
        other = harness.call(b"other")
        client.send_signal(signal.SIGCONT)
        assert client.stdout is not None
        reply = client.stdout.readline()
    assert (other, reply) == (b"other", "patient\n")


# --- Binary Star -----------------------------------------------------------------------------------------------


def star(folder: Path) -> Harness:
    front, state = (endpoint(), endpoint()), (endpoint(), endpoint())
    words = {
        role: ("bstarsrv2", *flags, "--bind", front[own], "--state-bind", state[own], "--state-peer", state[1 - own],
               "--state-ms", "200")
        for role, flags, own in (("primary", (), 0), ("backup", ("--backup",), 1))
    }  # fmt: skip
    return Harness("lazy", folder, front, words)


def await_state(harness: Harness, side: str, state: str) -> None:
    """Read what a side prints until it is in this state."""
    output = harness.processes[side].stdout
    assert output is not None
    while line := output.readline():
        if line.strip() == state:
            return
    raise AssertionError(f"the {side} ended before it was {state}")


def lead_by(harness: Harness, side: str) -> None:
    """Start both sides and let this one be active, the other one passive."""
    harness.start("primary", "backup")
    await_state(harness, "primary", "active")
    await_state(harness, "backup", "passive")
    if side == "backup":
        harness.strike("primary", signal.SIGKILL)
        assert harness.call(b"moved") == b"moved"
        harness.start("primary")
        await_state(harness, "primary", "passive")


SIDES = [
    ("primary", "pending"), ("backup", "pending"), ("primary", "active"), ("backup", "active"), ("primary", "passive"),
    ("backup", "passive"),
]  # fmt: skip


@STRIKES
@pytest.mark.parametrize(("side", "state"), SIDES, ids=["-".join(case) for case in SIDES])
def test_a_side_of_a_pair_that_is_struck_in_a_state_of_its_own_costs_no_call(
    side: str, state: str, number: signal.Signals, tmp_path: Path
) -> None:
    """XX-05, BS-06, BS-07, BS-13: a pending side waits alone for its peer."""
    other = "backup" if side == "primary" else "primary"
    with star(tmp_path) as harness:
        if state == "pending":
            harness.start(side)
        else:
            lead_by(harness, side if state == "active" else other)
        harness.strike(side, number)
        call = harness.calling(b"meanwhile")
        time.sleep(STRUCK_SECONDS)
        harness.heal(side, number)
        harness.start(*(role for role in harness.words if role not in harness.processes))
        replies = [call.result(WAIT_SECONDS), harness.call(b"later")]
    assert replies == [b"meanwhile", b"later"]


# --- Titanic ---------------------------------------------------------------------------------------------------


def titanic(folder: Path) -> Harness:
    """Titanic in a process of its own; an execution that nobody answers is repeated after three seconds."""
    address = endpoint()
    words = {
        "broker": ("mdbroker", "--bind", address),
        "titanic": ("titanic", "--connect", address, "--folder", str(folder / "requests"), "--execution-seconds", "3"),
        "worker": (HELD_PEER, "majordomo", str(folder), address),
    }
    return Harness("titanic", folder, (address,), words, ("worker",))


STORED = [
    *((role, "waiting") for role in ("broker", "titanic")),
    *((role, "leased") for role in ("broker", "titanic", "worker")),
    *((role, "answered") for role in ("broker", "titanic", "worker")),
]


@STRIKES
@pytest.mark.parametrize(("role", "state"), STORED, ids=["-".join(case) for case in STORED])
def test_a_stored_request_outlives_each_process_that_is_struck_in_each_of_its_states(
    role: str, state: str, number: signal.Signals, tmp_path: Path
) -> None:
    """XX-05, TI-03, TI-08: with its id alone, by another client."""
    with titanic(tmp_path) as harness:
        if state == "leased":
            harness.hold.touch()
        harness.start(*(each for each in harness.words if state != "waiting" or each != "worker"))
        with titanic_client(*harness.addresses) as client:
            request_id = client.submit("echo", b"kept")
            if state == "leased":
                block_until(lambda: (tmp_path / "started").exists())
            elif state == "answered":
                client.wait(request_id, WAIT_SECONDS)
        harness.strike(role, number)
        time.sleep(STRUCK_SECONDS)
        harness.heal(role, number)
        harness.hold.unlink(missing_ok=True)
        harness.start(*(each for each in harness.words if each not in harness.processes))
        with titanic_client(*harness.addresses) as client:
            replies = [client.wait(request_id, WAIT_SECONDS), client.fetch(request_id)]
    assert replies == [[b"kept"], [b"kept"]]
