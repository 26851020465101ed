"""A model of a primary with two standbys, a failover, and a hub that hands out only what required standbys have.

Two events of one key are published, by one *way*: by the outbox to a relay, or by the direct path to a worker. A record
of the write-ahead log is an event, or the note that one was sent. A position is a number of records.

The primary waits for one of the two standbys, as ``ANY 1 (two, three)`` does. A waiting commit is seen by nobody. Its
wait may be cancelled, or the list of standbys emptied. One standby is promoted, and the other one follows it. The hub
follows by :class:`db.replication.primary.Primary`, and compares by :class:`db.replication.standby_fence.Required`. Both
events come before the failover, or one on each side of it, so that positions come again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from db.errors import PrimaryChanged
from db.replication.primary import Primary, ServerIdentity
from db.replication.standby_fence import Required, Standbys

__all__ = ["FenceRules", "StandbyFence", "Way"]

Way = Literal["outbox", "direct"]
_SERVERS: Final = ("one", "two", "three")
_SEEN: Final = ("returned", "acknowledged", "refused")


@dataclass(frozen=True, slots=True)
class FenceRules:
    """The rules. The defaults are right; each other value is a mistake, or a manager that the fence cannot cover.

    ``acknowledged_by``: what makes a 202 of a commit that has returned.
    """

    required: Literal["all", "any"] = "all"
    promoted: Literal["each", "most advanced"] = "each"
    position_after_snapshot: bool = True
    fences_direct: bool = True
    fences_claims: bool = True
    acknowledged_by: Literal["fence", "no warning", "any return"] = "fence"
    drops_old_sessions: bool = True


class _Commit(NamedTuple):
    """``position``: behind its record, on the server of ``timeline``."""

    status: Literal["", "waiting", "returned", "acknowledged", "refused"]
    position: int = 0
    timeline: int = 0


class _Held(NamedTuple):
    """What a relay or a worker has read and not yet sent. A step of reading is missing while one part is None."""

    by: Literal["relay", "direct", "claim"]
    events: tuple[int, ...] | None
    position: int | None
    timeline: int


class _State(NamedTuple):
    """``log`` is the primary's, ``former`` that of the primary before; ``hub`` is the timeline that the hub follows.

    ``last_seen``: how far the standbys were when the former primary was lost.
    """

    primary: int = 0
    timeline: int = 1
    hub: int = 1
    log: tuple[tuple[str, int], ...] = ()
    former: tuple[tuple[str, int], ...] = ()
    flushed: tuple[int, ...] = (0, 0, 0)
    last_seen: tuple[int, ...] = (0, 0, 0)
    is_listed: bool = True
    has_died: bool = False
    commits: tuple[_Commit, ...] = (_Commit(""), _Commit(""))
    relay: _Held | None = None
    worker: _Held | None = None
    sent: tuple[tuple[str, int], ...] = ()


@cache
def _ends_old_sessions() -> bool:
    """Return whether a session from before the promotion is over by the pool's own rule."""
    primary = Primary()
    primary.admit(ServerIdentity(1, 1))
    session = primary.generation
    try:
        primary.admit(ServerIdentity(1, 2))
    except PrimaryChanged:
        return session < primary.generation
    return False


class StandbyFence:
    """The model. See the module. ``is_last_after``: the last event is published after the failover."""

    def __init__(self, rules: FenceRules, way: Way, *, is_last_after: bool = False) -> None:
        self._rules = rules
        self._way: Way = way
        self._is_last_after = is_last_after

    def start(self) -> _State:
        """Nothing is published yet."""
        return _State()

    def steps(self, state: _State) -> Iterator[tuple[str, _State]]:
        """Yield what may happen next."""
        yield from self._server(state)
        yield from self._publisher(state)
        yield from self._relay(state)
        yield from self._worker(state)

    def broken(self, state: _State) -> str:
        """Return the rule that is broken; empty: none."""
        if state.timeline == 2:
            known = {event for kind, event in state.log if kind != "sent"}
            if ghosts := sorted({event for _, event in state.sent} - known):
                return f"a ghost: event {ghosts[0]} is out, and the promoted server does not know it"
            acknowledged = {number for number, one in enumerate(state.commits, 1) if one.status == "acknowledged"}
            if lost := sorted(acknowledged - known):
                return f"lost: event {lost[0]} was acknowledged, and the promoted server does not know it"
        for sink in ("Kafka", "webhook"):
            events = [event for place, event in state.sent if place == sink]
            # A batch that was not purged comes again as a whole, so Kafka's order is that of first occurrences.
            order = list(dict.fromkeys(events)) if sink == "Kafka" else events
            if order != sorted(order):
                return f"an inversion: {sink} got {events}"
        return ""

    # --- servers ---

    def _server(self, state: _State) -> Iterator[tuple[str, _State]]:
        for server, flushed in enumerate(state.flushed):
            if server != state.primary and flushed < len(state.log):
                yield (
                    f"{_SERVERS[server]} flushes {flushed + 1}",
                    state._replace(flushed=_at(state.flushed, server, flushed + 1)),
                )
        if state.timeline == 1:
            if state.is_listed:
                yield "the list of standbys is emptied", state._replace(is_listed=False)
            for server in (1, 2):
                if self._rules.promoted == "each" or state.flushed[server] == max(state.flushed):
                    yield f"{_SERVERS[server]} is promoted", self._promoted(state, server)
        elif state.hub == 1:
            yield "the hub follows", self._followed(state)

    def _promoted(self, state: _State, server: int) -> _State:
        common = state.flushed[server]
        flushed = tuple(0 if one == server else min(state.flushed[one], common) if one else common for one in range(3))
        commits = tuple(one._replace(status="refused") if one.status == "waiting" else one for one in state.commits)
        return state._replace(
            primary=server, timeline=2, log=state.log[:common], former=state.log, flushed=flushed,
            last_seen=state.flushed, is_listed=True, commits=commits,
        )  # fmt: skip

    def _followed(self, state: _State) -> _State:
        state = state._replace(hub=2, former=())
        if self._rules.drops_old_sessions and _ends_old_sessions():
            commits = tuple(
                one._replace(status="refused") if one.status == "returned" else one for one in state.commits
            )
            state = state._replace(relay=None, worker=None, commits=commits)
        return state

    def _passes(self, state: _State, position: int) -> bool:
        """Compare as the hub can: with what the server that it follows says of its standbys."""
        primary, flushed = (state.primary, state.flushed) if state.hub == state.timeline else (0, state.last_seen)
        names = tuple(name for server, name in enumerate(_SERVERS) if server != primary)
        others = tuple(at for server, at in enumerate(flushed) if server != primary)
        standbys = Standbys(0, 0, str(state.hub), _SERVERS[primary], True, names, others)
        required = Required(names=_SERVERS) if self._rules.required == "all" else Required(count=1)
        return not required.lacking(standbys, position)

    # --- publishing ---

    def _publisher(self, state: _State) -> Iterator[tuple[str, _State]]:
        for place, one in enumerate(state.commits):
            is_waiting = any(earlier.status == "waiting" for earlier in state.commits[:place])
            is_due = all(earlier.status for earlier in state.commits[:place]) or self._is_after(place)
            if (
                not one.status
                and is_due
                and not is_waiting
                and state.hub == state.timeline == 1 + self._is_after(place)
            ):
                yield self._published(state, place)
        for place, one in enumerate(state.commits):
            if one.status == "waiting":
                yield from self._returns(state, place, one)
            elif one.status == "returned" and self._is_sure(state, one):
                yield f"{place + 1} is acknowledged", _marked(state, place, "acknowledged")
        if not state.has_died:
            commits = tuple(
                one._replace(status="refused") if one.status in ("waiting", "returned") else one
                for one in state.commits
            )
            yield "the hub dies", state._replace(has_died=True, relay=None, worker=None, commits=commits)

    def _is_after(self, place: int) -> bool:
        return self._is_last_after and place == 1

    def _published(self, state: _State, place: int) -> tuple[str, _State]:
        commit = _Commit("waiting", len(state.log) + 1, state.timeline)
        log = (*state.log, (self._way, place + 1))
        return f"{place + 1} is committed", state._replace(log=log, commits=_at(state.commits, place, commit))

    def _returns(self, state: _State, place: int, one: _Commit) -> Iterator[tuple[str, _State]]:
        others = [flushed for server, flushed in enumerate(state.flushed) if server != state.primary]
        if not state.is_listed or max(others) >= one.position:
            yield f"the commit of {place + 1} returns", self._taken(_marked(state, place, "returned"), place + 1)
        warned = _marked(state, place, "refused")
        if self._rules.acknowledged_by == "any return":
            warned = self._taken(_marked(state, place, "returned"), place + 1)
        yield f"the wait of {place + 1} is cancelled", warned

    def _taken(self, state: _State, event: int) -> _State:
        """The worker takes the deliveries of a direct commit, with the position read after it."""
        if state.worker is None and event in _heads(state.log, state):
            return state._replace(worker=_Held("direct", (event,), len(state.log), state.timeline))
        return state

    def _is_sure(self, state: _State, one: _Commit) -> bool:
        return self._rules.acknowledged_by != "fence" or self._passes(state, one.position)

    # --- what lets bytes out ---

    def _relay(self, state: _State) -> Iterator[tuple[str, _State]]:
        log, held = _hubs_log(state), state.relay
        snapshot = tuple(event for event in _unsent(log, "outbox") if _is_seen(state, event))
        if held is None:
            if self._rules.position_after_snapshot and snapshot:
                yield f"the relay sees {snapshot}", state._replace(relay=_Held("relay", snapshot, None, state.hub))
            elif not self._rules.position_after_snapshot:
                yield (
                    f"the relay reads position {len(log)}",
                    state._replace(relay=_Held("relay", None, len(log), state.hub)),
                )
        elif held.position is None and held.timeline == state.hub:
            yield f"the relay reads position {len(log)}", state._replace(relay=held._replace(position=len(log)))
        elif held.events is None and snapshot and held.timeline == state.hub:
            yield f"the relay sees {snapshot}", state._replace(relay=held._replace(events=snapshot))
        elif held.events and held.position is not None and self._passes(state, held.position):
            yield f"the relay sends {held.events}", _sent(state._replace(relay=None), "Kafka", held.events)

    def _worker(self, state: _State) -> Iterator[tuple[str, _State]]:
        log, held = _hubs_log(state), state.worker
        if held is None:
            for event in _heads(log, state):
                claim = _Held("claim", (event,), len(log), state.hub)
                yield f"{event} is claimed", state._replace(worker=claim)
            return
        assert held.events is not None
        assert held.position is not None
        is_fenced = self._rules.fences_direct if held.by == "direct" else self._rules.fences_claims
        if not is_fenced or self._passes(state, held.position):
            yield f"the worker sends {held.events}", _sent(state._replace(worker=None), "webhook", held.events)


def _at(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])


def _marked(state: _State, place: int, status: Literal["returned", "acknowledged", "refused"]) -> _State:
    return state._replace(commits=_at(state.commits, place, state.commits[place]._replace(status=status)))


def _hubs_log(state: _State) -> tuple[tuple[str, int], ...]:
    return state.log if state.hub == state.timeline else state.former


def _is_seen(state: _State, event: int) -> bool:
    return state.commits[event - 1].status in _SEEN


def _unsent(log: tuple[tuple[str, int], ...], way: str) -> list[int]:
    sent = {event for kind, event in log if kind == "sent"}
    return [event for kind, event in log if kind == way and event not in sent]


def _heads(log: tuple[tuple[str, int], ...], state: _State) -> list[int]:
    """The lane's head, if its commit is over."""
    return [event for event in _unsent(log, "direct")[:1] if _is_seen(state, event)]


def _sent(state: _State, sink: str, events: tuple[int, ...]) -> _State:
    """Bytes are out, and the hub's server notes it. A server without the event notes nothing."""
    log = _hubs_log(state)
    known = {event for kind, event in log if kind != "sent"}
    log = (*log, *(("sent", event) for event in events if event in known))
    out = (*state.sent, *((sink, event) for event in events))
    return state._replace(sent=out, log=log) if state.hub == state.timeline else state._replace(sent=out, former=log)
