"""Whether the configured brokers are there and are what they should be: one small exchange in their own protocol.

No broker library is used: these checks belong to no sink, must end within their deadline, and only look.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from urllib.parse import urlsplit

from app.checks.check import Check
from app.settings import Settings

__all__ = ["broker_checks"]

_SECONDS = 3.0
_AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = 1
# ApiVersions, version 0, correlation 1, client "hookwire": any Kafka answers it before anything else.
_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, 8) + b"hookwire"


async def broker_checks(settings: Settings) -> list[Check]:
    """One for Kafka, one for AMQP; a broker that is not configured is a note."""
    async with asyncio.TaskGroup() as tasks:
        kafka = tasks.create_task(_kafka(settings.kafka_bootstrap_servers))
        amqp = tasks.create_task(_amqp(settings.amqp_url.get_secret_value() if settings.amqp_url else ""))
    return [kafka.result(), amqp.result()]


async def _kafka(servers: str) -> Check:
    """The first server of the list that answers will do."""
    if not servers:
        return Check("kafka", "Kafka", "note", "not configured (HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS): no such sink")
    failures = []
    for server in filter(None, (part.strip() for part in servers.split(","))):
        host, _, port = server.rpartition(":")
        request = struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS
        failure, answer = await _exchange(host or server, int(port) if port.isdigit() else 9092, request, 8, tls=False)
        if not failure and answer[4:8] == b"\x00\x00\x00\x01":
            return Check("kafka", "Kafka", "ok", f"{server} answers")
        failures.append(f"{server}: {failure or 'answers, but not as a Kafka'}")
    return Check("kafka", "Kafka", "unreachable", "; ".join(failures), "events wait in the outbox until it is back")


async def _amqp(url: str) -> Check:
    if not url:
        return Check("amqp", "AMQP", "note", "not configured (HOOKWIRE_AMQP_URL): no such sink")
    parts = urlsplit(url)
    tls = parts.scheme == "amqps"
    host, port = parts.hostname or "", parts.port or (5671 if tls else 5672)
    failure, answer = await _exchange(host, port, _AMQP_HEADER, 1, tls=tls)
    if not failure and answer[0] != _METHOD_FRAME:
        failure = "answers, but not as AMQP 0-9-1"
    if failure:
        cure = "events wait in the outbox until it is back"
        return Check("amqp", "AMQP", "unreachable", f"{host}:{port}: {failure}", cure)
    return Check("amqp", "AMQP", "ok", f"{host}:{port} answers")


async def _exchange(host: str, port: int, request: bytes, answer_bytes: int, *, tls: bool) -> tuple[str, bytes]:
    """Connect, send, read so many bytes; gives what failed (empty: nothing) and the bytes."""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=ssl.create_default_context() if tls else None
            )
            try:
                writer.write(request)
                return "", await reader.readexactly(answer_bytes)
            finally:
                writer.close()
    except TimeoutError:
        return f"no answer within {_SECONDS:g} s", b""
    except asyncio.IncompleteReadError:
        return "closed the connection", b""
    except (OSError, UnicodeError) as error:
        return str(error) or type(error).__name__, b""
