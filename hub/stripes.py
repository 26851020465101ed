"""StripesInUse: the stripes that the writers of one process hold in a commit, so that they do not refuse each other.

A stripe is the lock of an ordering key in the database. Two commits of one process that need the same stripe would
find it busy there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence, Set
from contextlib import asynccontextmanager
from functools import lru_cache

from event.event import Draft
from event.key_hash import hash_key

__all__ = ["StripesInUse", "stripes_of"]


def stripes_of(drafts: Sequence[Draft], *, across_topics: bool) -> frozenset[int]:
    """Return the locks of their ordering keys, as ``hookwire.lane_digest`` under either order scope."""
    return frozenset([_stripe_of("" if across_topics else d.topic, d.key) for d in drafts if d.key is not None])


@lru_cache(maxsize=8192)
def _stripe_of(topic: str, key: str) -> int:
    """Remember the stripes of the last keys."""
    return hash_key(topic, key).stripe


class StripesInUse:
    """``in_commit`` are held now; ``on_release`` is called when some are given back.

    Writers of single requests look at ``in_commit`` and pass over a request. Those of large batches wait in
    :meth:`using`, also for the requests that were passed over: otherwise batches could follow each other for ever.
    """

    def __init__(self, on_release: Callable[[], object]) -> None:
        self.in_commit: set[int] = set()
        self._wanted: Set[int] = frozenset()
        self._on_release = on_release
        self._changed = asyncio.Event()

    def want(self, stripes: Set[int]) -> None:
        """Note the stripes of the requests that were passed over, in place of those noted before."""
        if stripes or self._wanted:
            self._wanted = stripes
            self._changed.set()

    def take(self, stripes: Collection[int]) -> None:
        """Hold stripes, none of which is held."""
        self.in_commit.update(stripes)

    def release(self, stripes: Collection[int]) -> None:
        """Give stripes back."""
        self.in_commit.difference_update(stripes)
        self._changed.set()
        self._on_release()

    @asynccontextmanager
    async def using(self, stripes: frozenset[int]) -> AsyncIterator[None]:
        """Hold stripes, once nobody of this process holds or wants one of them."""
        while not stripes.isdisjoint(self.in_commit) or not stripes.isdisjoint(self._wanted):
            self._changed.clear()
            await self._changed.wait()
        self.take(stripes)
        try:
            yield
        finally:
            self.release(stripes)
