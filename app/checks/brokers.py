"""Check that the configured brokers answer and accept us, with the sinks' own clients and options."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from app.assembly.sinks import amqp_options, kafka_options
from app.checks.check import Check
from app.settings.settings import Settings, SettingsRefused
from relay.amqp import connection_check as amqp_check
from relay.kafka import connection_check as kafka_check

__all__ = ["broker_checks"]

_DOWN = "events wait in the outbox until it is back"
_REFUSED = "change the setting that is named; events wait in the outbox until then"


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
        return Check("kafka", "Kafka", "ok", answer.detail)
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
    return Check("amqp", "AMQP", "ok", f"{place} answers")


def _no_way_in(id_: str, subject: str, detail: str, *, refused: bool) -> Check:
    if refused:
        return Check(id_, subject, "refuse", detail, _REFUSED)
    return Check(id_, subject, "unreachable", detail, _DOWN)
