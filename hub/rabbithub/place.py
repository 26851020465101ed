"""Places: where an exchange or a queue of RabbitHub is, and what is known of one that exists."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Place", "Resource"]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a resource: virtual host, ``x`` or ``q``, name."""

    vhost: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Resource:
    """An exchange or a queue that exists."""

    id: int
    place: Place
    exchange_type: str | None
    source: int | None
    mirror: bool | None = None
    """Whether its messages also go to AMQP; None: the hub's setting decides."""

    @property
    def is_default_exchange(self) -> bool:
        """Return whether this is the exchange without a name."""
        return self.place.kind == "x" and not self.place.name
