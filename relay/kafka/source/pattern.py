"""KafkaPattern: reads each Kafka topic whose name fits a pattern, by a source of its own.

::

    look --> fits?  --no--> another source reads it, the hub's own, no topic of the hub, too many: passed over, by name
              '--yes--> was there at the first look of any process?  --yes--> read from where ``start`` says
                                                                      '--no--> read from its first record
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Sequence

import structlog

from db.errors import DatabaseError
from event.topic import TopicError, is_reserved, validate_topic
from relay.kafka.admin import KafkaAdmin
from relay.kafka.options import KafkaOptions
from relay.kafka.source.passed_over import PassedOver, told_first, unread_text
from relay.kafka.source.pattern_notes import PatternNotes
from relay.kafka.source.route import KafkaRoute, reader_of
from relay.kafka.source.service import KafkaSource
from relay.sink import SinkUnavailable
from runtime.cancellation import TaskGroup
from runtime.pause import pause
from runtime.trouble import Trouble

__all__ = ["KafkaPattern"]

_log = structlog.get_logger(__name__)
_LOOK_SECONDS = 10.0
_TOPICS_MAX = 100


class KafkaPattern:
    """A named service that looks for Kafka topics every ten seconds. ``routes`` are all sources of this process: a
    topic is read by one of them. ``notes`` are shared with other processes.

    It reads at most 100 topics. A topic that appears after the first look of any process is read from its first record,
    also if no process ran when it appeared.
    """

    def __init__(
        self, options: KafkaOptions, route: KafkaRoute, routes: Sequence[KafkaRoute],
        make_source: Callable[[KafkaRoute], KafkaSource], notes: PatternNotes,
    ) -> None:  # fmt: skip
        self.name = f"kafka source {route.source}"
        self.source = route.source
        self._options = options
        self._route = route
        self._routes = routes
        self._make_source = make_source
        self._notes = notes
        self._reading: dict[str, KafkaSource] = {}
        self._passed_over: dict[str, PassedOver] = {}
        self._unread = ""
        self._has_looked = False
        self._stopping = asyncio.Event()
        self._trouble = Trouble("kafka_source_waits", "kafka_source_goes_on")

    @property
    def sources(self) -> Sequence[KafkaSource]:
        """Return the sources of the topics that were found."""
        return list(self._reading.values())

    @property
    def state(self) -> str:
        """Return the state in one word or two: connecting, reading, passing over (topics that nobody reads), backing
        off, stopped.
        """
        if self._stopping.is_set():
            return "stopped"
        if self._trouble.lasts:
            return "backing off"
        if not self._has_looked:
            return "connecting"
        return "passing over" if self._unread else "reading"

    @property
    def last_error(self) -> str:
        """Return the last error, in one line; while it passes topics over, which ones and why."""
        return self._unread if self.state == "passing over" else self._trouble.last_error

    def stop(self) -> None:
        """Fetch no more. Records in hand are still taken."""
        self._stopping.set()
        for source in self._reading.values():
            source.stop()

    async def run(self) -> None:
        """Look for topics, and read them, until stopped."""
        async with TaskGroup() as tasks:
            while not self._stopping.is_set():
                try:
                    await self._follow(await self._names(), tasks)
                except (SinkUnavailable, DatabaseError) as error:
                    self._trouble.tell(error, source=self.source)
                else:
                    self._trouble.over(source=self.source)
                await pause(self._stopping, _LOOK_SECONDS)

    async def _names(self) -> set[str]:
        admin = KafkaAdmin(self._options)
        try:
            await admin.start()
            return await admin.names()
        finally:
            await admin.close()

    async def _follow(self, names: set[str], tasks: asyncio.TaskGroup) -> None:
        """Begin to read new topics, and leave those that are gone. One that was passed over is looked at again."""
        self._leave(self._reading.keys() - names)
        fitting = [route for name in sorted(names) if (route := self._route.of(name)) is not None]
        first = await self._first_topics({route.source for route in fitting})
        if self._stopping.is_set():
            return
        passed_over: dict[str, PassedOver] = {}
        for route in fitting:
            if route.source in self._reading:
                continue
            if (why := self._why_not(route)) is not None:
                passed_over[route.source] = why
                continue
            is_first = route.source in first
            source = self._make_source(route if is_first else dataclasses.replace(route, start="earliest"))
            self._reading[route.source] = source
            tasks.create_task(source.run(), name=source.name)
        await self._note(passed_over)
        self._has_looked = True

    def _leave(self, gone: Collection[str]) -> None:
        for name in gone:
            _log.warning(
                "kafka_source_gone", source=self.source, kafka_topic=name,
                hint="the topic was deleted, or its user may no longer describe it",
            )  # fmt: skip
            self._reading.pop(name).stop()

    async def _first_topics(self, fitting: set[str]) -> set[str]:
        """Return the topics for which ``start`` counts. One that has gone since the first look counts as new."""
        first = await self._notes.first_topics({name for name in fitting if self._is_mine(name)}, self._is_mine)
        if gone := first - fitting:
            await self._notes.forget(gone)
        return first - gone

    async def _note(self, passed_over: dict[str, PassedOver]) -> None:
        """Note what is passed over in the database; a line of the log tells each topic once that nobody reads."""
        for name, why in passed_over.items():
            if why.is_unread and self._passed_over.get(name) != why:
                _log.warning("kafka_source_passed_over", source=self.source, kafka_topic=name, reason=why.reason)
        await self._notes.pass_over(told_first(passed_over.values()), len(passed_over))
        self._passed_over, self._unread = passed_over, unread_text(passed_over.values())

    def _is_mine(self, name: str) -> bool:
        return reader_of(self._routes, name) is self._route

    def _why_not(self, route: KafkaRoute) -> PassedOver | None:
        name, reader = route.source, reader_of(self._routes, route.source)
        if reader is not None and reader is not self._route:
            return PassedOver(name, "other", f"the source {reader.source} reads it")
        if name == self._options.progress_topic:
            return PassedOver(name, "own", "the sink of this hub keeps its progress there")
        try:
            if is_reserved(validate_topic(route.topic)):
                return PassedOver(name, "own", f"the topic {route.topic} is the hub's own")
        except TopicError as error:
            return PassedOver(name, "name", str(error))
        if len(self._reading) >= _TOPICS_MAX:
            why = f"{_TOPICS_MAX} topics fit already: use several patterns, or patterns that fit fewer"
            return PassedOver(name, "limit", why)
        return None
