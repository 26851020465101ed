"""Callbacks of services and of kinds of jobs: read from their subscriptions in ``webhooks``, behind a port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from egress.callback import Callback
from webhooks.signature import webhook_headers
from webhooks.subscriber import Subscriber, Subscribers

__all__ = ["SubscribedCallbacks"]


class SubscribedCallbacks:
    """Callbacks from subscriptions; each POST is signed as a delivery is (Standard Webhooks)."""

    def __init__(self, subscribers: Subscribers) -> None:
        self._subscribers = subscribers

    async def open(self, wanted: Iterable[tuple[int, int]]) -> Mapping[int, Callback]:
        """Return callbacks by id for pairs of a subscription's id and version."""
        found = await self._subscribers.get(wanted)
        return {number: _callback(subscriber) for number, subscriber in found.items()}


def _callback(subscriber: Subscriber) -> Callback:
    def sign(message_id: str, timestamp_seconds: int, body: bytes) -> list[tuple[str, str]]:
        signed = webhook_headers(subscriber.keys, message_id, timestamp_seconds, body)
        return [*signed.items(), *subscriber.headers.items()]

    return Callback(subscriber.target, subscriber.refusal, subscriber.timeout_seconds, sign)
