"""The relay of our own outbox inside another program: the role ``relay`` as an object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.settings.settings import Settings
from app.wiring import open_hub
from relay.embeddable import Relay
from relay.observer import Handler

__all__ = ["open_relay"]


@asynccontextmanager
async def open_relay(settings: Settings, on_event: Handler | None = None) -> AsyncIterator[Relay]:
    """Yield a relay of all configured sinks, not started yet; close everything that it opened on exit. ``on_event``
    gets the events of :mod:`relay.observer`, on the running event loop. Use ``app.cli.goharvest.relay.open_compat`` for
    goharvest's table. Raises as :func:`app.wiring.open_hub`.
    """
    async with open_hub(settings, ["relay"], on_event) as hub:
        assert hub.relaying is not None, "the role relay builds it"
        observers = hub.relaying.observers
        yield Relay([(relay, observers[relay.sink_name]) for relay in hub.relaying.relays], hub.phases[-1])
