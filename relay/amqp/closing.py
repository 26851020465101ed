"""Closing: why the broker closed a channel, and which of the messages in flight it closed it for.

A broker closes the whole channel for one message, and all messages in flight on it fail. RabbitMQ's text names the
exchange and the routing key, or the size, of the one to blame. So the others can be sent again at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from relay.amqp.error import line_of
from relay.record import Record
from relay.sink import Refusal

__all__ = ["Closing"]

_EXCHANGE: Final = re.compile(r"exchange '([^']*)'")
_ROUTING_KEY: Final = re.compile(r"topic '([^']*)' in exchange")
_SIZE_MAX: Final = re.compile(r"larger than (?:configured )?max size (\d+)")
_CURES: Final = {
    "ACCESS_REFUSED": "; grant the user of HOOKWIRE_AMQP_URL write access to it",
    "NOT_FOUND": "; declare it, or change the topic's AMQP exchange",
    "PRECONDITION_FAILED": "; raise max_message_size of the broker, or send less",
}


@dataclass(frozen=True, slots=True)
class Closing:
    """A broker's reason. A part that it does not name is None."""

    text: str
    exchange: str | None = None
    routing_key: str | None = None
    bytes_max: int | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a reason, such as "NOT_FOUND - no exchange 'x' in vhost '/'"."""
        exchange, routing_key, size = (pattern.search(text) for pattern in (_EXCHANGE, _ROUTING_KEY, _SIZE_MAX))
        return cls(
            text,
            exchange[1] if exchange else None,
            routing_key[1] if routing_key else None,
            int(size[1]) if size else None,
        )

    @property
    def kind(self) -> str:
        """Return its first word, such as NOT_FOUND."""
        return self.text.partition(" ")[0]

    @property
    def names_the_message(self) -> bool:
        """Return whether it tells which message it is about."""
        return self.exchange is not None or self.bytes_max is not None

    def is_about(self, exchange: str, routing_key: str, body_bytes: int) -> bool:
        """Return whether a message may be the one."""
        if self.bytes_max is not None:
            return body_bytes > self.bytes_max
        return self.exchange == exchange and self.routing_key in (None, routing_key)

    def line(self) -> str:
        """Return the broker's text with a cure, in one line."""
        return line_of(self.text + _CURES.get(self.kind, ""))

    def refusal(self, record: Record) -> Refusal:
        """Return the refusal of the message that it is about."""
        is_topic = self.kind in ("NOT_FOUND", "ACCESS_REFUSED")
        return Refusal(record, "topic" if is_topic else "record", "refused_by_broker", self.line())
