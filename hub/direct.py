"""Direct path: a commit may hand its deliveries to the worker of the same process (ADR 47).

::

                    few drafts, a worker with room, a known low-water mark
    Publisher ---------------------+------------------> direct.publish: deliveries, claimed --> worker
                                   '--otherwise-------> event.publish_batch: outbox --> relay --> fan-out --> worker

This module checks the conditions that a process knows. The database checks the others in the transaction:
``hookwire.publish_batch`` itself for events of one topic without keys, otherwise ``hookwire.direct_audience``. An event
that does not qualify goes by the outbox, in the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from db.pool import Row

__all__ = ["DirectCommit", "DirectOptions", "DirectPath"]


@dataclass(frozen=True, slots=True)
class DirectOptions:
    """Limits: a commit of more drafts, or for more deliveries, goes by the outbox.

    So do all events of a tenant that has more active subscriptions by pattern.
    """

    drafts_max: int = 64
    deliveries_max: int = 256
    patterns_max: int = 32


class Offer(Protocol):
    """The deliveries that a worker takes from one commit."""

    timeout_seconds: float
    lease_margin_seconds: float

    @property
    def member_id(self) -> int | None:
        """Return the member for which the deliveries are claimed."""
        ...

    def take(self, claims: Sequence[Row]) -> None:
        """Take deliveries that were claimed for it."""
        ...


class DirectCommit:
    """One commit by which events may go to the worker."""

    def __init__(
        self, offer: Offer, low_water: tuple[int, UUID], options: DirectOptions,
        pass_by: Callable[[Sequence[int], UUID], object],
    ) -> None:  # fmt: skip
        self._offer = offer
        self._low_water = low_water
        self._options = options
        self._pass_by = pass_by

    @property
    def terms(self) -> tuple[object, ...]:
        """Return the last arguments of ``direct.publish``."""
        options, offer = self._options, self._offer
        lease = offer.timeout_seconds, offer.lease_margin_seconds
        return (*self._low_water, *lease, options.deliveries_max, options.patterns_max, offer.member_id)

    def take(self, rows: Sequence[Row]) -> None:
        """Hand over the deliveries that the commit has made, and tell of the events that are owed to no sink."""
        unowed = [row["event_id"] for row in rows if row["outcome"] == "stored" and not row["is_owed"]]
        self._pass_by(unowed, self._low_water[1])
        self._offer.take([row for row in rows if row["subscription_id"] is not None])


class DirectPath:
    """Decides for one process. ``offer`` returns None where the worker has no room.

    ``low_water`` returns the id below which no outbox row of the webhooks is left, with its origin. It returns None
    where this process does not lead the webhooks. ``pass_by`` gets the ids of events without an outbox row, with
    their origin, so that no relay looks for them.
    """

    def __init__(
        self,
        offer: Callable[[], Offer | None],
        low_water: Callable[[], tuple[int, UUID] | None],
        options: DirectOptions | None = None,
        pass_by: Callable[[Sequence[int], UUID], object] = lambda _ids, _origin: None,
    ) -> None:
        self._offer = offer
        self._low_water = low_water
        self._options = options or DirectOptions()
        self._pass_by = pass_by

    def begin(self, drafts: int) -> DirectCommit | None:
        """Return the terms of a commit of so many drafts; None: all of them go by the outbox."""
        if drafts > self._options.drafts_max:
            return None
        low_water = self._low_water()
        offer = self._offer() if low_water is not None else None
        if low_water is None or offer is None:
            return None
        return DirectCommit(offer, low_water, self._options, self._pass_by)
