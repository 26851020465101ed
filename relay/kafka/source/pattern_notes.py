"""PatternNotes: what all processes share about a pattern of Kafka topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog

from db.pool import Database
from relay.kafka.source.passed_over import PassedOver
from relay.kafka.source.route import KafkaRoute

__all__ = ["PatternNotes"]

_FIRST_MAX: Final = 10_000

_log = structlog.get_logger(__name__)


class PatternNotes:
    """The row of one pattern. Every method raises ``DatabaseError``."""

    def __init__(self, database: Database, route: KafkaRoute) -> None:
        self._database = database
        self._route = route

    async def first_topics(self, found: Collection[str], is_mine: Callable[[str], bool]) -> set[str]:
        """Return the topics of the first look of any process. If this is the first look, they are those it has found.

        A pattern that was read before there were notes has looked already; ``is_mine`` tells whether it reads a topic.
        """
        pattern = self._route.source
        first = await self._database.fetchval("source.first_topics", pattern)
        if first is None:
            rows = await self._database.fetch("source.names", self._route.like)
            is_old = any(is_mine(row["name"]) for row in rows)
            first = await self._database.fetchval(
                "source.first_look", pattern, [] if is_old else sorted(found)[:_FIRST_MAX]
            )
            _log.info("kafka_source_first_look", source=pattern, kafka_topics=len(first))
        return set(first)

    async def forget(self, gone: Collection[str]) -> None:
        """Forget that topics were there at the first look: one of such a name would be another topic."""
        await self._database.execute("source.forget_first", self._route.source, [*gone])

    async def pass_over(self, named: Sequence[PassedOver], count: int) -> None:
        """Note which topics are passed over, and how many."""
        text = json.dumps([one._asdict() for one in named])
        await self._database.execute("source.pass_over", self._route.source, text, count)
