"""Topology: queues and exchanges that are declared only if they are missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from aio_pika.exceptions import ChannelNotFoundEntity

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection

__all__ = ["declare_missing"]


async def declare_missing(
    connection: AbstractConnection, declare: Callable[[AbstractChannel, bool], Awaitable[None]]
) -> None:
    """Check passively, then declare a missing one on a new channel: a failed check closes the channel.

    ``declare`` is called with a channel, and with whether it only checks. Existing ones keep their arguments.
    """
    with suppress(ChannelNotFoundEntity):
        async with connection.channel() as channel:
            await declare(channel, True)
        return
    async with connection.channel() as channel:
        await declare(channel, False)
