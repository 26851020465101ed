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
    """The connection failed. ``refused``: the broker answered, so a setting must change."""

    def __init__(self, text: str, *, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused


async def connect(options: AmqpOptions, name: str) -> AbstractConnection:
    """Open a connection that never reconnects by itself (RQ-06). Raise ConnectionRefused.

    The broker's list of connections shows ``name``.
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
    """Connect and close the connection. Raise ConnectionRefused."""
    connection = await connect(options, "hookwire doctor")
    await connection.close()


def _blame(error: BaseException, options: AmqpOptions) -> str:
    """Return a text that names the setting to change, or '' if the cause is not known to be a setting."""
    scheme = urlsplit(options.url).scheme
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return "the user or the password is refused: HOOKWIRE_AMQP_URL"
    if tls := options.tls.blame(error):
        return f"{tls}: HOOKWIRE_AMQP_URL begins with {scheme}://" if tls.startswith("there is no TLS") else tls
    refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes(error))
    if refused or not isinstance(error, _CLOSED):
        return ""
    wanted = f"{options.tls.settings}_CERTIFICATE, {options.tls.settings}_KEY"
    guess = f"a broker that requires a certificate ({wanted})" if scheme == "amqps" else "a broker that requires TLS"
    closed = f"it closed the connection before the handshake, as does a load balancer without a broker, or {guess}"
    return f"{closed}: HOOKWIRE_AMQP_URL begins with {scheme}://"
