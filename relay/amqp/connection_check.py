"""Connect to the AMQP broker; an error names the setting to change."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AuthenticationError, IncompatibleProtocolError, ProbableAuthenticationError

from relay.amqp.error import line_of, trouble_of
from relay.amqp.options import AmqpOptions
from relay.sink import SinkUnavailable
from relay.tls import causes

__all__ = ["ConnectionRefused", "check_connection", "connect"]


_CLOSED = (ConnectionError, IncompatibleProtocolError, StopAsyncIteration)


class ConnectionRefused(SinkUnavailable):
    """No connection. ``refused``: the broker answers, and a setting must change."""

    def __init__(self, text: str, *, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused


async def connect(options: AmqpOptions, name: str) -> AbstractConnection:
    """Open a plain connection, never a robust one (RQ-06). Raise ConnectionRefused.

    ``name`` is for the broker's list of connections.
    """
    doing = "cannot connect to the AMQP broker"
    try:
        context = options.tls.context() if options.url.startswith("amqps://") else None
        async with asyncio.timeout(options.connect_seconds):
            return await aio_pika.connect(
                options.url, ssl_context=context, heartbeat=options.heartbeat_seconds, name=name
            )
    except (Exception, asyncio.CancelledError) as error:
        blame = str(error) if type(error) is ValueError else _blame(error, options)
        text = blame or trouble_of(error)
        if not text:
            raise
        raise ConnectionRefused(line_of(f"{doing}: {text}"), refused=bool(blame)) from error


async def check_connection(options: AmqpOptions) -> None:
    """Connect and close; raise ConnectionRefused."""
    connection = await connect(options, "hookwire doctor")
    await connection.close()


def _blame(error: BaseException, options: AmqpOptions) -> str:
    """Return which setting is wrong, or '' if no setting is known to be the cause."""
    scheme = urlsplit(options.url).scheme
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return "the user or the password is refused: HOOKWIRE_AMQP_URL"
    if tls := options.tls.blame(error):
        return f"{tls}: HOOKWIRE_AMQP_URL begins with {scheme}://" if tls.startswith("there is no TLS") else tls
    refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes(error))
    if refused or not isinstance(error, _CLOSED):
        return ""
    wanted = f"{options.tls.settings}_CERTIFICATE, {options.tls.settings}_KEY"
    guess = f"that wants a certificate ({wanted})" if scheme == "amqps" else "that speaks TLS"
    closed = f"it closed the connection before it greeted us, like a load balancer without a broker or one {guess}"
    return f"{closed}: HOOKWIRE_AMQP_URL begins with {scheme}://"
