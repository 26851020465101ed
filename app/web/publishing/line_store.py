"""LineStore: stores the lines of a batch so that each has an outcome of its own, and each key keeps its order.

::

    all lines, one commit --> stored: the usual case
         |
         '--> one line is refused, or one key is held --> a commit for each key
                    |
                    '--> refused --> halves, the first before the second ... --> the line alone: its refusal
                    '--> held    --> this line and the later ones of its key are not stored

A later line of a key is never stored before an earlier one that a publisher may still repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from app.web.problem import Problem
from app.web.publishing.publish_problem import PUBLISH_ERRORS, problem_of_publish
from event.event import Draft
from hub.publish import Accepted, IdempotencyConflict, IdempotencyInFlight, KeyBusy, Publisher, PublishRefused

__all__ = ["LineStore", "Outcome"]

Outcome = Accepted | Problem
_OF_A_LINE = (IdempotencyConflict, PublishRefused)
"""What a repeat does not change: the other lines can be stored."""
_OF_A_KEY = (IdempotencyInFlight, KeyBusy)


class LineStore:
    """Stores lines by a publisher, whose commits they share with others."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def store(
        self, drafts: Sequence[Draft], fingerprints: Sequence[bytes | None], published_by: str | None
    ) -> list[Outcome]:
        """Return an outcome for each draft, in order. ``published_by`` is the id of their publisher's API key.

        Raise ``Problem`` if the outcome of all is the same: none stored, or none known.
        """
        try:
            return list(await self._publisher.publish(drafts, fingerprints, published_by))
        except (*_OF_A_LINE, *_OF_A_KEY):
            pass
        except PUBLISH_ERRORS as error:
            raise problem_of_publish(error) from error
        attempt = _Attempt(self._publisher, drafts, fingerprints, published_by)
        await asyncio.gather(*(attempt.settle(positions) for positions in _by_key(drafts).values()))
        return [attempt.outcomes[position] for position in range(len(drafts))]


class _Attempt:
    """The lines of one batch, stored key by key."""

    def __init__(
        self, publisher: Publisher, drafts: Sequence[Draft], fingerprints: Sequence[bytes | None],
        published_by: str | None,
    ) -> None:  # fmt: skip
        self._publisher = publisher
        self._drafts = drafts
        self._fingerprints = fingerprints
        self._published_by = published_by
        self.outcomes: dict[int, Outcome] = {}

    async def settle(self, positions: Sequence[int]) -> bool:
        """Store the lines of one key, or find those that are refused. Return whether later lines may be stored."""
        try:
            found = await self._publisher.publish(
                [self._drafts[position] for position in positions],
                [self._fingerprints[position] for position in positions],
                self._published_by,
            )
        except _OF_A_LINE as error:
            if len(positions) == 1:
                self.outcomes[positions[0]] = problem_of_publish(error)
                return True
            middle = len(positions) // 2
            if await self.settle(positions[:middle]):
                return await self.settle(positions[middle:])
            self._leave(positions[middle:])
            return False
        except PUBLISH_ERRORS as error:
            self.outcomes |= dict.fromkeys(positions, problem_of_publish(error))
            return False
        self.outcomes |= dict(zip(positions, found, strict=True))
        return True

    def _leave(self, positions: Sequence[int]) -> None:
        words = "An earlier line of this key was not stored, so this one was not tried; nothing of it was stored."
        self.outcomes |= dict.fromkeys(positions, Problem("busy", words))


def _by_key(drafts: Sequence[Draft]) -> Mapping[str | None, list[int]]:
    found: dict[str | None, list[int]] = {}
    for position, draft in enumerate(drafts):
        found.setdefault(draft.key, []).append(position)
    return found
