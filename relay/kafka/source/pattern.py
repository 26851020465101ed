"""KafkaPattern: reads each Kafka topic whose name fits a pattern, by a source of its own."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Sequence

import structlog

from db.errors import DatabaseError
from event.topic import TopicError, is_reserved, validate_topic
from relay.kafka.admin import KafkaAdmin
from relay.kafka.options import KafkaOptions
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
    topic is read by one of them. ``read_before`` returns the names of sources that were read, also by former processes.

    It reads at most 100 topics. A topic that appears after the pattern has read one is read from its first record, also
    if no process ran when it appeared.
    """

    def __init__(
        self, options: KafkaOptions, route: KafkaRoute, routes: Sequence[KafkaRoute],
        make_source: Callable[[KafkaRoute], KafkaSource], read_before: Callable[[], Awaitable[Collection[str]]],
    ) -> None:  # fmt: skip
        self.name = f"kafka source {route.source}"
        self.source = route.source
        self._options = options
        self._route = route
        self._routes = routes
        self._make_source = make_source
        self._read_before = read_before
        self._reading: dict[str, KafkaSource] = {}
        self._passed_over: dict[str, str] = {}
        self._has_looked = False
        self._has_read = False
        self._stopping = asyncio.Event()
        self._trouble = Trouble("kafka_source_waits", "kafka_source_goes_on")

    @property
    def sources(self) -> Sequence[KafkaSource]:
        """Return the sources of the topics that were found."""
        return list(self._reading.values())

    @property
    def state(self) -> str:
        """Return the state in one word or two: connecting, reading, backing off, stopped."""
        if self._stopping.is_set():
            return "stopped"
        if self._trouble.lasts:
            return "backing off"
        return "reading" if self._has_looked else "connecting"

    @property
    def last_error(self) -> str:
        """Return the last error, in one line."""
        return self._trouble.last_error

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
                    names = await self._names()
                    self._has_read = self._has_read or any(map(self._is_mine, await self._read_before()))
                    self._follow(names, tasks)
                except (SinkUnavailable, DatabaseError) as error:
                    self._trouble.tell(error, source=self.source)
                else:
                    self._trouble.over(source=self.source)
                await pause(self._stopping, _LOOK_SECONDS)

    async def _names(self) -> set[str]:
        admin = KafkaAdmin(self._options)
        try:
            await admin.start()
            return await admin.names() - {self._options.progress_topic}
        finally:
            await admin.close()

    def _follow(self, names: set[str], tasks: asyncio.TaskGroup) -> None:
        """Begin to read new topics, and leave those that are gone. One that was passed over is looked at again."""
        for gone in self._reading.keys() - names:
            _log.warning(
                "kafka_source_gone", source=self.source, kafka_topic=gone,
                hint="the topic was deleted, or its user may no longer describe it",
            )  # fmt: skip
            self._reading.pop(gone).stop()
        for gone in self._passed_over.keys() - names:
            del self._passed_over[gone]
        for name in sorted(names - self._reading.keys()):
            route = self._route.of(name)
            if self._stopping.is_set() or route is None or not self._is_mine(name):
                continue
            if why := self._why_not(route):
                if self._passed_over.get(name) != why:
                    _log.warning("kafka_source_passed_over", source=self.source, kafka_topic=name, reason=why)
                self._passed_over[name] = why
                continue
            self._passed_over.pop(name, None)
            source = self._make_source(dataclasses.replace(route, start="earliest") if self._has_read else route)
            self._reading[name] = source
            tasks.create_task(source.run(), name=source.name)
        self._has_looked = self._has_read = True

    def _is_mine(self, name: str) -> bool:
        return reader_of(self._routes, name) is self._route

    def _why_not(self, route: KafkaRoute) -> str:
        if len(self._reading) >= _TOPICS_MAX:
            return f"{_TOPICS_MAX} topics fit already: use several patterns, or patterns that fit fewer"
        try:
            return f"the topic {route.topic} is the hub's own" if is_reserved(validate_topic(route.topic)) else ""
        except TopicError as error:
            return str(error)
