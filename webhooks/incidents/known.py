"""Known incidents: the numbers of the incidents that this process has met, so that the database is seldom asked."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from db.pool import Database
from webhooks.incidents.fingerprint import Fingerprint, fingerprint_of
from webhooks.result import Result

__all__ = ["OWN_MAX", "KnownIncidents"]

OWN_MAX: Final = 50
"""Unresolved incidents of a subscription with a fingerprint of their own."""

_KNOWN_MAX: Final = 10_000
_KNOWN_SECONDS: Final = 3_600.0
_OTHER_SECONDS: Final = 60.0
"""So long the unknown fingerprints of a subscription beyond its limit are in ``other``, before one is tried again."""
_OTHER: Final = "other"
"""Stands for a digest, which has 32 hexadecimal digits: the incident of those beyond the limit."""


class _Known(NamedTuple):
    """An incident's number, and until when it holds on the monotonic clock."""

    incident_id: int
    until: float


class KnownIncidents:
    """Finds the incidents of failures. At most 10,000 are remembered, each for an hour at most; those that were used
    longest ago are forgotten first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[int, str], _Known] = OrderedDict()

    async def of(self, database: Database, batch: Sequence[Result]) -> list[int | None]:
        """Return the incident of each result, None for a success. The database is asked for unknown ones only.

        Call it outside of a transaction: a number that was rolled back must not be remembered.

        Raises ``db.errors.DatabaseError``.
        """
        failures = {
            place: fingerprint_of(result.outcome)
            for place, result in enumerate(batch)
            if result.decision.action != "delivered"
        }
        if not failures:
            return []
        now = self._clock()
        causes = {place: (batch[place].subscription_id, one.digest) for place, one in failures.items()}
        found = {cause: number for cause in causes.values() if (number := self._number(cause, now)) is not None}
        unknown = {cause: place for place, cause in causes.items() if cause not in found}
        if unknown:
            found |= await self._ask(database, batch, failures, unknown, now)
        return [found.get(causes[place]) if place in causes else None for place in range(len(batch))]

    def _number(self, cause: tuple[int, str], now: float) -> int | None:
        """Return the incident of a cause: its own, or that of those beyond the limit of its subscription."""
        for key in (cause, (cause[0], _OTHER)):
            known = self._known.get(key)
            if known is not None and known.until > now:
                self._known.move_to_end(key)
                return known.incident_id
        return None

    async def _ask(
        self, database: Database, batch: Sequence[Result], failures: dict[int, Fingerprint],
        unknown: dict[tuple[int, str], int], now: float,
    ) -> dict[tuple[int, str], int]:  # fmt: skip
        """Return the incidents of unknown causes, which are made where they are new."""
        asked = list(unknown)
        chosen = [failures[unknown[cause]] for cause in asked]
        rows = await database.fetch(
            "incident.note", [subscription for subscription, _ in asked], [digest for _, digest in asked],
            [one.outcome for one in chosen], [one.status for one in chosen], [one.excerpt for one in chosen],
            [batch[place].event_id for place in unknown.values()], OWN_MAX,
        )  # fmt: skip
        found: dict[tuple[int, str], int] = {}
        for row in rows:
            cause = asked[row["place"] - 1]
            found[cause] = row["incident_id"]
            key = (cause[0], _OTHER) if row["is_other"] else cause
            until = now + (_OTHER_SECONDS if row["is_other"] else _KNOWN_SECONDS)
            self._known[key] = _Known(row["incident_id"], until)
            self._known.move_to_end(key)
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
        return found
