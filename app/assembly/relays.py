"""Relays: builds the relay role from the settings: one relay for each sink, one harvester for each partition group.

Every group has its own sink, and so its own producer or connection. Groups share the process's membership in the
election and its connection pool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from app.assembly.sinks import amqp_options, kafka_options, sink_maker
from app.bridges.job_sink import JobSink
from app.failpoints import Failpoints, FailpointSink
from app.settings.settings import Settings
from db.direct import Direct
from db.pool import Database
from hub.owed import Owed
from relay.election.lease import LeaseOptions, Leases
from relay.election.port import Election
from relay.harvester import Harvester, HarvesterOptions
from relay.holds.hold import Holds
from relay.metrics import RelayMetrics
from relay.observer import Handler, Observer
from relay.outbox import Outbox
from relay.sink import SHARDS, Sink
from relay.sink_relay import SinkRelay
from runtime.process import Service, process_name
from runtime.wake import Wake

if TYPE_CHECKING:
    from relay.amqp.mirrors import Mirrors
    from relay.election.neli import NeliElection

__all__ = ["Relaying"]


class Relaying:
    """The relays of one process. ``relays`` are stopped before ``services``, because the elections hold their leases.
    ``observers``, one for each sink, report the leaders to ``on_event``. An embedding program runs them, for the meter.

    Raises SettingsRefused for a broker that can never be reached by these settings.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        connect: Callable[[], Awaitable[Direct]],
        incarnation: str,
        sinks: Sequence[str],
        metrics: RelayMetrics,
        points: Failpoints,
        inner_sinks: Mapping[str, Callable[[], Sink]],
        on_event: Handler | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._incarnation = incarnation
        self._metrics = metrics
        self._points = points
        self._inner_sinks = inner_sinks
        self._makers = {name: sink_maker(name, settings, incarnation) for name in sinks if name not in inner_sinks}
        self._harvesters: list[tuple[Harvester, Sink]] = []
        self.observers = {name: Observer(name, on_event) for name in sinks}
        owner = process_name()
        by_neli = [name for name in sinks if name == "kafka" and settings.kafka_election == "neli"]
        by_lease = [name for name in sinks if name not in by_neli]
        self._leases = Leases(database, connect, by_lease, LeaseOptions(owner, settings.lease_seconds))
        self._neli = {name: self._neli_election(name, owner) for name in by_neli}
        self.relays = [self._relay(name) for name in sinks]
        mirrors = self._mirrors(database) if "amqp" in sinks else None
        self.services: Sequence[Service] = [self._leases, *self._neli.values(), *([mirrors] if mirrors else [])]
        self.channels = {"hookwire_mirrors": lambda _: mirrors.notify()} if mirrors else {}

    def notify(self, owed: Owed) -> None:
        """Wake the relays that a commit owes rows. The sink of jobs is left to the due poller until it has sent an
        event.
        """
        for harvester, sink in self._harvesters:
            if not isinstance(sink, JobSink) or sink.has_sent:
                harvester.on_commit(owed.of(sink.name))

    def leads(self, owed: Owed) -> bool:
        """Return whether this process leads all shards to which a commit owes rows. The sink of jobs is left to the due
        poller, as in ``notify``.
        """
        return all(relay.leads(owed.of(relay.sink_name)) for relay in self.relays if relay.sink_name != "jobs")

    def on_poll(self, last_id: int, origin: UUID, holds_are_due: bool) -> None:
        """Apply the due poller's result."""
        for harvester, _sink in self._harvesters:
            harvester.on_poll(last_id, origin, holds_are_due=holds_are_due)

    def pass_by(self, ids: Sequence[int], origin: UUID) -> None:
        """Note events of this process that are owed to no sink, and the origin of their ids."""
        for harvester, _sink in self._harvesters:
            harvester.pass_by(ids, origin)

    def states(self) -> dict[str, tuple[str, str]]:
        """Return for each sink its state in one word, and the last error."""
        return {relay.sink_name: (relay.state, relay.last_error) for relay in self.relays}

    def low_water_of_webhooks(self) -> tuple[int, UUID] | None:
        """Return the id below which no outbox row of the webhooks is left, and its origin; None unless it leads
        all shards.
        """
        mark = next((relay.low_water for relay in self.relays if relay.sink_name == "webhooks"), None)
        return None if mark is None or mark.shards < SHARDS else (mark.id, mark.origin)

    def _mirrors(self, database: Database) -> Mirrors:
        from relay.amqp.mirrors import Mirrors

        options = amqp_options(self._settings, self._incarnation)
        return Mirrors(database, options, by_default=self._settings.rabbithub_mirror)

    def _relay(self, name: str) -> SinkRelay:
        election = self._neli[name] if name in self._neli else self._leases.election(name)
        return SinkRelay(name, election, lambda group: self._harvester(name, group, election))

    def _neli_election(self, name: str, owner: str) -> NeliElection:
        from relay.election.neli import NeliElection
        from relay.election.neli_core import NeliTimes
        from relay.election.neli_options import NeliOptions

        kafka = kafka_options(self._settings, self._incarnation)
        session = self._settings.neli_session_seconds
        times = NeliTimes(min(0.5, session / 12), session * 2 / 3, session)
        return NeliElection(self._database, kafka, name, NeliOptions(owner, self._incarnation, times=times))

    def _harvester(self, name: str, group: int, election: Election) -> Harvester:
        sink = self._sink(name, lambda: election.trusted(group))
        harvester = Harvester(
            FailpointSink(sink, self._points) if self._points else sink,
            Outbox(self._database, name, self._incarnation, payload=sink.features.payload),
            Holds(self._database, name, self._incarnation, self._settings.on_refused),
            Wake(is_watched=True),
            self._metrics,
            HarvesterOptions(),
            self.observers[name],
        )
        self._harvesters.append((harvester, sink))
        return harvester

    def _sink(self, name: str, trusted: Callable[[], bool]) -> Sink:
        if name in self._inner_sinks:
            return self._inner_sinks[name]()
        return self._makers[name](trusted)
