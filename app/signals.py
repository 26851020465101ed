"""Signals: the notifications between the services of one process. Wiring creates them first and connects every
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
from runtime.signals import Signal

__all__ = ["Signals"]

_DUE_COLUMNS: Final = ("deliveries", "foreign_topics", "intents", "leases", "rabbithub", "replays", "upstreams")


def _due_signals() -> Mapping[str, Signal[[]]]:
    return {column: Signal[[]]() for column in _DUE_COLUMNS}


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of a process. ``published_here``: this process committed an event outside of the relay's own work.

    ``stored`` carries each committed draft of this process with its event. ``published``: an event was committed, here
    or elsewhere. It and ``published_here`` carry the shards with new outbox rows. ``deliveries_due`` and ``fanned_out``
    carry the subscriptions with new deliveries. ``polled`` carries the last id drawn, its origin, and whether a hold is
    due for a probe. ``database_silent``: the database does not answer. ``order_scope`` says whether a key is in order
    across topics. ``due`` has one signal for each column of the due poller's query.
    """

    published_here: Signal[[Owed]] = field(default_factory=Signal)
    stored: Signal[[Draft, Accepted]] = field(default_factory=Signal)
    published: Signal[[Owed]] = field(default_factory=Signal)
    deliveries_due: Signal[[Sequence[int]]] = field(default_factory=Signal)
    fanned_out: Signal[[Sequence[int]]] = field(default_factory=Signal)
    polled: Signal[[int, UUID, bool]] = field(default_factory=Signal)
    database_silent: Signal[[]] = field(default_factory=Signal)
    order_scope: Signal[[bool]] = field(default_factory=Signal)
    due: Mapping[str, Signal[[]]] = field(default_factory=_due_signals)

    def published_somewhere(self) -> None:
        """Report an event of this process whose shard is not known."""
        self.published_here.notify(ANYTHING)
