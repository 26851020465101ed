"""Mirrored exchanges: a service that declares them in AMQP, when one is asked for and again and again.

A consumer can then bind a queue before the first message. An exchange that somebody has deleted by hand is there again
after some seconds; its bindings are not, because the broker has forgotten them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from aio_pika.exceptions import AMQPChannelError

from db.errors import DatabaseError
from db.pool import Database, Row
from relay.amqp.closing import Closing
from relay.amqp.connection_check import connect
from relay.amqp.error import line_of, translated
from relay.amqp.link import close_in_time
from relay.amqp.name import NAME_RULE, is_exchange_name
from relay.amqp.options import AmqpOptions
from relay.amqp.topology import declare_missing
from relay.sink import SinkUnavailable
from runtime.cancellation import end_if_cancelled
from runtime.periodic import Periodic
from runtime.trouble import Trouble

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection

__all__ = ["Mirrors"]

_ROUND_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 5.0
_EXCHANGES_MAX: Final = 10_000


class Mirrors(Periodic):
    """The service of one process. ``by_default``: exchanges of ``/`` that do not say otherwise are mirrored."""

    name = "amqp mirrors"
    expected: ClassVar = (DatabaseError,)

    def __init__(self, database: Database, options: AmqpOptions, *, by_default: bool) -> None:
        super().__init__(_ROUND_SECONDS)
        self._database = database
        self._options = options
        self._by_default = by_default
        self._sweep_at = 0.0
        self._trouble = Trouble("amqp_mirrors_wait", "amqp_mirrors_go_on")

    def failed(self, error: Exception) -> None:
        """Report that the database did not answer."""
        self._trouble.tell(error)

    def pause_seconds(self) -> float:
        """Return the time until all exchanges are looked for again."""
        return max(self._sweep_at - time.monotonic(), 0.0)

    async def once(self) -> None:
        """Look for mirrored exchanges in AMQP, and declare those that are missing. After a notification before the next
        sweep, these are only those that somebody has asked for.
        """
        is_sweep = time.monotonic() >= self._sweep_at
        if is_sweep:
            self._sweep_at = time.monotonic() + _ROUND_SECONDS
        rows = await self._database.fetch("rabbithub.mirrored", self._by_default, _EXCHANGES_MAX, is_sweep)
        of_vhost: dict[str, list[Row]] = {}
        for row in rows:
            of_vhost.setdefault(row["vhost"], []).append(row)
        problem = None
        for vhost, of_it in of_vhost.items():
            problem = await self._declare_all(vhost, of_it) or problem
        if problem is not None:
            self._trouble.tell(problem)
        elif is_sweep:
            self._trouble.over()

    async def _declare_all(self, vhost: str, rows: Sequence[Row]) -> Exception | None:
        """Declare the exchanges of one virtual host. Return why that was not possible."""
        options = self._options if vhost == "/" else self._options.in_vhost(vhost)
        try:
            connection = await connect(options, "hookwire mirrors")
        except SinkUnavailable as error:
            end_if_cancelled()
            for row in rows:
                await self._note(row, line_of(str(error)))
            return error
        problem = None
        try:
            for row in rows:
                try:
                    await self._note(row, await _declare(connection, row))
                except SinkUnavailable as error:
                    end_if_cancelled()
                    problem = error
                    await self._note(row, line_of(str(error)))
                if connection.is_closed:
                    break
        finally:
            await close_in_time(connection)
        return problem

    async def _note(self, row: Row, problem: str | None) -> None:
        await self._database.execute("rabbithub.declared", row["id"], problem, row["declared_at"])


async def _declare(connection: AbstractConnection, row: Row) -> str | None:
    """Declare an exchange if it is missing. Return the broker's reason if it refuses. Raise SinkUnavailable."""
    if not is_exchange_name(row["name"]):
        return NAME_RULE

    async def exchange(channel: AbstractChannel, passive: bool) -> None:
        await channel.declare_exchange(row["name"], row["exchange_type"], durable=True, passive=passive)

    with translated("cannot declare the mirrored exchanges"):
        async with asyncio.timeout(_ANSWER_SECONDS):
            try:
                await declare_missing(connection, exchange)
            except AMQPChannelError as refused:
                return Closing.of(str(refused)).line()
    return None
