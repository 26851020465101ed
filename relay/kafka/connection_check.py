"""Check the connection to Kafka; the answer names the setting to change.

aiokafka's clients hide the error of a single connection ("unable to bootstrap"). So the sink, when it cannot connect,
and ``hookwire doctor`` ask again on a separate connection.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from aiokafka import errors
from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from relay.kafka.error import described, thrown_at
from relay.kafka.options import KafkaOptions
from relay.kafka.security import KafkaSecurity
from relay.sink import SinkUnavailable

__all__ = ["ConnectionCheck", "check_connection"]

_SECONDS = 3.0
_DEFAULT_PORT = 9092
_TROUBLE = (errors.KafkaError, OSError, TimeoutError, EOFError, SinkUnavailable)


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """The result of a check. ``detail`` has the outcome of each server; ``refused``: a server answered and needs other
    settings.
    """

    ok: bool
    detail: str
    refused: bool = False


async def check_connection(options: KafkaOptions) -> ConnectionCheck:
    """Connect, authenticate and send one request; the first server of the list that answers is enough."""
    failures, refused = [], False
    for server in filter(None, (part.strip() for part in options.bootstrap_servers.split(","))):
        try:
            await _ask(server, options)
        except Exception as error:
            if not (isinstance(error, _TROUBLE) or thrown_at(error)):
                raise
            reason = _blame(error, options.security)
            refused = refused or bool(reason)
            failures.append(f"{server}: {reason or described(error)}")
        else:
            return ConnectionCheck(True, f"{server} answers")
    return ConnectionCheck(False, "; ".join(failures), refused)


async def _ask(server: str, options: KafkaOptions) -> None:
    host, _, port = server.rpartition(":")
    connection = await create_conn(
        host.strip("[]") or server, int(port) if port.isdigit() else _DEFAULT_PORT,
        client_id=f"{options.relay}-check", request_timeout_ms=int(_SECONDS * 1000), **options.security.client(),
    )  # fmt: skip
    with closing(connection):
        await connection.send(MetadataRequest([]))


def _blame(error: BaseException, security: KafkaSecurity) -> str:
    """Return which setting is wrong, '' when none is known to be wrong."""
    protocol = f"HOOKWIRE_KAFKA_SECURITY_PROTOCOL is {security.protocol}"
    if tls := security.tls.blame(error):
        return f"{tls} ({protocol})" if tls.startswith("there is no TLS") else tls
    if isinstance(error, errors.SaslAuthenticationFailed):
        return "the user or the password is refused: HOOKWIRE_KAFKA_SASL_USERNAME, HOOKWIRE_KAFKA_SASL_PASSWORD"
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return f"the broker does not take {security.mechanism}: HOOKWIRE_KAFKA_SASL_MECHANISM"
    if isinstance(error, errors.IllegalSaslStateError):
        return f"this port asks for no password: {protocol}"
    if isinstance(error, ConnectionRefusedError) or not isinstance(
        error, errors.KafkaConnectionError | ConnectionError
    ):
        return ""
    return f"it closed the connection, like a server with another protocol: {protocol}"
