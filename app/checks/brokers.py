"""Check that the configured brokers answer and accept us, with the sinks' own clients and options."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from app.assembly.sinks import amqp_options, kafka_options, sink_maker
from app.checks.check import Check
from app.settings.settings import Settings, SettingsRefused
from relay.amqp import connection_check as amqp_check
from relay.kafka import connection_check as kafka_check
from relay.sink import Fenced, Sink, SinkUnavailable, Term

__all__ = ["broker_checks"]

_DOWN = "events wait in the outbox until it is back"
_REFUSED = "change what is named; events wait in the outbox until then"
_DOCTOR = "doctor"
_OPEN_SECONDS = 30.0


async def broker_checks(settings: Settings) -> list[Check]:
    """Return one check for Kafka, one for AMQP; a broker that is not configured is a note."""
    async with asyncio.TaskGroup() as tasks:
        kafka = tasks.create_task(_kafka(settings))
        amqp = tasks.create_task(_amqp(settings))
    return [kafka.result(), amqp.result()]


async def _kafka(settings: Settings) -> Check:
    if not settings.kafka_bootstrap_servers:
        return Check("kafka", "Kafka", "note", "not configured (HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS): no such sink")
    try:
        answer = await kafka_check.check_connection(kafka_options(settings, "doctor"))
    except SettingsRefused as refused:
        return Check("kafka", "Kafka", "refuse", str(refused))
    if answer.ok:
        return await _tried("Kafka", sink_maker("kafka", settings, _DOCTOR)(lambda: True), answer.detail)
    return _no_way_in("kafka", "Kafka", answer.detail, refused=answer.refused)


async def _amqp(settings: Settings) -> Check:
    if settings.amqp_url is None:
        return Check("amqp", "AMQP", "note", "not configured (HOOKWIRE_AMQP_URL): no such sink")
    parts = urlsplit(settings.amqp_url.get_secret_value())
    place = f"{parts.hostname}:{parts.port or (5671 if parts.scheme == 'amqps' else 5672)}"
    try:
        await amqp_check.check_connection(amqp_options(settings, "doctor"))
    except SettingsRefused as refused:
        return Check("amqp", "AMQP", "refuse", str(refused))
    except amqp_check.ConnectionRefused as closed:
        return _no_way_in("amqp", "AMQP", f"{place}: {closed}", refused=closed.refused)
    return await _tried("AMQP", sink_maker("amqp", settings, _DOCTOR)(lambda: True), f"{place} answers")


async def _tried(subject: str, sink: Sink, answer: str) -> Check:
    """Open the sink as the relay does, under names of its own: locks, transactions, the exchange, a test message."""
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            await sink.open(Term(_DOCTOR, 0, 1, 1, 0))
    except Fenced:  # by another doctor
        pass
    except (SinkUnavailable, TimeoutError) as error:
        return Check(sink.name, subject, "refuse", f"{answer}, but: {error or 'the sink does not open'}", _REFUSED)
    finally:
        await sink.close()
    return Check(sink.name, subject, "ok", f"{answer}, and takes what the relay does")


def _no_way_in(id_: str, subject: str, detail: str, *, refused: bool) -> Check:
    if refused:
        return Check(id_, subject, "refuse", detail, _REFUSED)
    return Check(id_, subject, "unreachable", detail, _DOWN)
