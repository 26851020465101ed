"""Resend: publishes archived events through the hub's API: in order per key, each at most once, and resumable.

The keys of a batch are sent at the same time. A batch is noted when all its events were answered. A resumed replay
repeats at most one batch. The hub recognises repeats by the Idempotency-Key, which is the id of the archived event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from app.cli.asking.session import HubSession
from app.cli.data import segment
from app.cli.failure import CommandFailed
from app.cli.hub_client import post
from event.attribute import encode_header_value

if TYPE_CHECKING:
    from pipeline.selection import ArchivedEvent

__all__ = ["BATCH", "Resender", "Sent", "batches"]

BATCH = 200
_AT_ONCE = 16
_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)
_ANSWER_SECONDS = 30.0
_REFUSALS_SHOWN = 20


@dataclass(slots=True)
class Sent:
    """Counts of a replay. ``again``: events that the hub knew already; ``refused``: the first ones, with reasons."""

    published: int = 0
    again: int = 0
    refused_count: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def all(self) -> int:
        """Return the number of answered events."""
        return self.published + self.again + self.refused_count


def batches(events: Iterator[ArchivedEvent]) -> Iterator[list[ArchivedEvent]]:
    """Yield the events in batches, in their order."""
    while batch := list(islice(events, BATCH)):
        yield batch


class Resender:
    """Publish events through the hub's API.

    ``prefix`` is the prefix of our topics in Kafka. ``to`` is a topic for all events. ``rate`` is the largest number of
    events per second.
    """

    def __init__(self, client: HubSession, hub: str, prefix: str, to: str | None, rate: int | None) -> None:
        self.sent = Sent()
        self._client = client
        self._hub = hub
        self._prefix = prefix
        self._to = to
        self._rate = rate
        self._began = time.monotonic()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def send(self, batch: Sequence[ArchivedEvent]) -> None:
        """Send all events. Raises ``CommandFailed`` if the hub does not answer after all retries."""
        lanes: dict[tuple[str, str], list[ArchivedEvent]] = {}
        for event in batch:
            lanes.setdefault((event.topic, event.key or f"\0{event.event_id}"), []).append(event)
        try:
            async with asyncio.TaskGroup() as tasks:
                for lane in lanes.values():
                    tasks.create_task(self._send_lane(lane))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        if self._rate is not None:
            await asyncio.sleep(self._began + self.sent.all / self._rate - time.monotonic())

    async def _send_lane(self, lane: Sequence[ArchivedEvent]) -> None:
        async with self._slots:
            for event in lane:
                try:
                    await self._send(event)
                except CommandFailed as failed:
                    if failed.code != 2:
                        raise
                    self._refuse(event, str(failed))

    async def _send(self, event: ArchivedEvent) -> None:
        topic = self._to or event.topic.removeprefix(self._prefix)
        url = f"{self._hub}/topics/{segment(topic)}/events"
        # An event that is sent to another topic is a new event, so it needs another Idempotency-Key.
        name = event.event_id if self._to is None else f"{event.event_id}/{self._to}"
        headers = {
            "Idempotency-Key": name,
            "Hookwire-Replay-Of": event.event_id,
            **{attribute: encode_header_value(value) for attribute, value in event.attributes.items()},
        }
        if event.content_type is not None:
            headers["Content-Type"] = _sendable(event.content_type)
        params = None if event.key is None else {"key": event.key}
        for pause in (*_PAUSES_SECONDS, None):
            try:
                _, answer = await post(
                    url, event.payload, headers, params=params, deadline_seconds=_ANSWER_SECONDS, client=self._client
                )
            except CommandFailed as failed:
                if failed.code == 2 or pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                self._count(answer)
                return

    def _count(self, answer: Mapping[str, str]) -> None:
        if answer.get("idempotency-replayed") == "true":
            self.sent.again += 1
        else:
            self.sent.published += 1

    def _refuse(self, event: ArchivedEvent, reason: str) -> None:
        self.sent.refused_count += 1
        if len(self.sent.refused) < _REFUSALS_SHOWN:
            self.sent.refused.append((event.event_id, reason))


def _sendable(content_type: str) -> str:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-ndjson" or media_type.startswith("application/cloudevents"):
        raise CommandFailed(f"the hub would parse a body of type {media_type}: this event cannot be replayed", 2)
    return content_type
