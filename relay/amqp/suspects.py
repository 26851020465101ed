"""Suspects: the destinations and sizes for which the broker has closed a channel.

Each of them costs the channel of all messages in flight, and often the connection. So a message to such a destination,
or of such a size, is refused without being sent. A probe is sent alone, and ends the suspicion if the broker takes it.
"""

from __future__ import annotations

from typing import Final

from relay.amqp.closing import Closing
from relay.record import Record
from relay.sink import Refusal

__all__ = ["Suspects"]

_SUSPECTS_MAX: Final = 100


class Suspects:
    """The suspects of one sink. They outlive a connection."""

    def __init__(self) -> None:
        self._closings: list[Closing] = []

    def learn(self, closing: Closing) -> None:
        """Remember why a channel was closed. A missing exchange is found without being asked to take a message."""
        if closing.names_the_message and closing.kind != "NOT_FOUND" and closing not in self._closings:
            self._closings = [*self._closings[1 - _SUSPECTS_MAX :], closing]

    def refusal(self, record: Record, exchange: str, routing_key: str, body_bytes: int) -> Refusal | None:
        """Return the refusal of a message that the broker will not take."""
        for closing in self._closings:
            if closing.is_about(exchange, routing_key, body_bytes):
                return closing.refusal(record)
        return None

    def taken(self, exchange: str, routing_key: str, body_bytes: int) -> None:
        """Note that the broker has taken a message."""
        if self._closings:
            self._closings = [one for one in self._closings if not one.is_about(exchange, routing_key, body_bytes)]
