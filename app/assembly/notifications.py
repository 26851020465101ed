"""Notifications between the services of one process. Wiring creates them first and connects every
listener.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from event.event import Draft
from hub.owed import ANYTHING, Owed
from hub.publish import Accepted
from runtime.observable import Observable

__all__ = ["ProcessNotifications"]

_DUE_COLUMNS: Final = ("deliveries", "foreign_topics", "intents", "leases", "rabbithub", "replays", "upstreams")


def _due_observables() -> Mapping[str, Observable[[]]]:
    return {column: Observable[[]]() for column in _DUE_COLUMNS}


@dataclass(frozen=True, slots=True)
class ProcessNotifications:
    """The notifications of one process. ``published_here``: it committed an event outside of the relay's own work.

    ``stored`` carries each committed draft of this process with its event. ``published``: an event was committed, here
    or elsewhere. It and ``published_here`` carry the shards with new outbox rows. ``deliveries_due`` and ``fanned_out``
    carry the subscriptions with new deliveries. ``polled`` carries the last id drawn, its origin, and whether a hold is
    due for a probe. ``database_silent``: the database does not answer. ``order_scope`` says whether a key is in order
    across topics. ``due`` has one observable for each column of the due poller's query.
    """

    published_here: Observable[[Owed]] = field(default_factory=Observable)
    stored: Observable[[Draft, Accepted]] = field(default_factory=Observable)
    published: Observable[[Owed]] = field(default_factory=Observable)
    deliveries_due: Observable[[Sequence[int]]] = field(default_factory=Observable)
    fanned_out: Observable[[Sequence[int]]] = field(default_factory=Observable)
    polled: Observable[[int, UUID, bool]] = field(default_factory=Observable)
    database_silent: Observable[[]] = field(default_factory=Observable)
    order_scope: Observable[[bool]] = field(default_factory=Observable)
    due: Mapping[str, Observable[[]]] = field(default_factory=_due_observables)

    def published_somewhere(self) -> None:
        """Report an event of this process whose shard is not known."""
        self.published_here.notify(ANYTHING)
