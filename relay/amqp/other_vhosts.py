"""Other virtual hosts: the links of mirrors that are not in the virtual host of the sink's URL.

An AMQP connection is in one virtual host, so each has a link of its own, with its own lock queue. It is opened for the
first record. A virtual host that is missing, or whose connection is lost, holds its own topics; a probe tries it again.
The others go on.
"""

from __future__ import annotations

import asyncio
from typing import Final

import aio_pika

from relay.amqp.error import line_of
from relay.amqp.link import AmqpOptions, Link
from relay.amqp.suspects import Suspects
from relay.record import Record
from relay.sink import Refusal, SinkUnavailable

__all__ = ["OtherVhosts"]

_VHOSTS_MAX: Final = 50


class OtherVhosts:
    """The links of one sink, by virtual host. Their failures are refusals of a topic."""

    def __init__(self, options: AmqpOptions) -> None:
        self._options = options
        self._lock = ""
        self._links: dict[str, Link] = {}
        self._suspects: dict[str, Suspects] = {}
        self._failures: dict[str, SinkUnavailable] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    def open(self, lock: str) -> None:
        """Use a lock queue of this name in each virtual host."""
        self._lock = lock

    def begin_batch(self) -> None:
        """Try again what the batch before has found unusable."""
        self._failures.clear()
        for link in self._links.values():
            link.forget_refused_exchanges()

    async def publish(
        self, vhost: str, record: Record, message: aio_pika.Message, routing_key: str, *, alone: bool, seconds: float
    ) -> Refusal | None:
        """Send one message and return None once the broker has confirmed it, or its refusal."""
        try:
            link = await self._link(vhost)
            refusal = await link.publish(record, message, routing_key, alone=alone, seconds=seconds)
        except SinkUnavailable as failure:
            self._failures.setdefault(vhost, failure)
            await self._drop(vhost)
            return Refusal(record, "topic", "vhost_unavailable", line_of(f"virtual host {vhost}: {failure}"))
        return refusal

    async def close(self) -> None:
        """Close all links, which frees their locks."""
        for vhost in list(self._links):
            await self._drop(vhost)

    async def _link(self, vhost: str) -> Link:
        async with self._opening.setdefault(vhost, asyncio.Lock()):
            if vhost in self._failures:
                raise self._failures[vhost]
            if vhost not in self._links:
                if len(self._links) >= _VHOSTS_MAX:
                    raise SinkUnavailable(f"more than {_VHOSTS_MAX} virtual hosts have mirrors")
                self._links[vhost] = await self._opened(vhost)
            return self._links[vhost]

    async def _opened(self, vhost: str) -> Link:
        """Open a link in the time of one confirmation, because the records of other virtual hosts wait meanwhile."""
        seconds = self._options.publish_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._prepared(vhost)
        except TimeoutError as error:
            raise SinkUnavailable(f"it was not usable within {seconds:g} s") from error

    async def _prepared(self, vhost: str) -> Link:
        link = await Link.connect(self._options.in_vhost(vhost), self._suspects.setdefault(vhost, Suspects()))
        try:
            await link.take_lock(self._lock)
            await link.prepare(self._lock)
        except BaseException:
            await link.close()
            raise
        return link

    async def _drop(self, vhost: str) -> None:
        link = self._links.pop(vhost, None)
        if link is not None:
            await link.close()
