"""Settings of AMQP sources: the queues to read, and the names of attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal
from urllib.parse import parse_qsl, unquote

from pydantic import AfterValidator, Field, SecretStr, field_validator

from app.settings.address import amqp_place, check_amqp_url
from app.settings.part import SettingsPart, Texts
from event.topic import TopicError, is_reserved, validate_topic
from relay.amqp.name import NAME_RULE, VHOST_RULE, is_exchange_name, is_queue_name, is_vhost_name
from relay.source import SourceRoute

__all__ = ["AmqpSourceSettings", "AmqpUrl", "check_broker", "route_of"]

_FIELDS: Final = {
    "exchange": "exchange",
    "type": "exchange_type",
    "key": "binding_key",
    "topic": "topic",
    "rabbithub": "rabbithub_exchange",
    "refused": "refused",
    "vhost": "vhost",
    "shared": "shared",
}
_TYPES: Final = ("direct", "fanout", "topic", "headers")
_REFUSED: Final = ("keep", "reject")
_NAME_BYTES_MAX = 240
"""AMQP allows 255; the queue for refused messages has a longer name."""


def _checked(url: SecretStr | None) -> SecretStr | None:
    if url is not None:
        check_amqp_url(url.get_secret_value())
    return url


AmqpUrl = Annotated[SecretStr | None, AfterValidator(_checked)]


class AmqpSourceSettings(SettingsPart):
    """The AMQP queues to read. ``amqp_url`` and its TLS files serve the sink as well."""

    amqp_cloudevents_prefix: Literal["cloudEvents_", "ce-", "both"] = Field(
        "cloudEvents_",
        description="How the sink names headers with CloudEvents attributes. `ce-` is read by the RabbitMQ binding of "
        "the CloudEvents SDK for Python.",
    )
    amqp_sources: Texts = Field(
        (),
        description="Queues whose messages become events, comma separated: `QUEUE`, or `QUEUE?exchange=E&key=K` to "
        "bind it; `topic=T` names the topic (else the routing key), `rabbithub=X` an exchange of RabbitHub's URLs; "
        "`shared=true`: the queue is RabbitHub's queue of this name, too; "
        "`vhost=V` is a virtual host other than the URL's; "
        "`refused=reject` rejects messages that cannot be events (default: they are kept in `QUEUE.refused`). "
        "Values are percent-encoded, a comma is %2C.",
    )
    amqp_source_url: AmqpUrl = Field(
        None, description="The broker that AMQP_SOURCES are read from; default: that of AMQP_URL."
    )
    amqp_source_prefetch: int = Field(
        100, ge=1, le=5_000, description="Unacknowledged messages of each queue in this process, at most."
    )

    @field_validator("amqp_sources")
    @classmethod
    def _check_sources(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        queues = [route_of(text).queue for text in value]
        if len(set(queues)) < len(queues):
            raise ValueError("names a queue twice")
        return value


def route_of(text: str) -> SourceRoute:
    """Read one source; raises ValueError."""
    queue, _, query = text.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=len(_FIELDS))
    given = dict(pairs)
    if len(given) < len(pairs) or not given.keys() <= _FIELDS.keys():
        raise ValueError(f"{text!r}: after the queue come {', '.join(_FIELDS)}, each at most once")
    if given.get("shared", "true") != "true":
        raise ValueError(f"{text!r}: shared is true, or left out")
    options = {_FIELDS[name]: value for name, value in given.items()}
    if "type" not in given and given.get("exchange", "") == given.get("rabbithub"):
        options["exchange_type"] = ""
    route = SourceRoute(unquote(queue), **{**options, "shared": "shared" in given})  # type: ignore[arg-type]
    if route.refused not in _REFUSED:
        raise ValueError(f"{text!r}: refused is one of {', '.join(_REFUSED)}")
    names = (route.queue, route.exchange, route.binding_key, route.topic, route.rabbithub_exchange, route.vhost)
    if not route.queue or any(len(name.encode()) > _NAME_BYTES_MAX for name in names):
        raise ValueError(f"{text!r}: a queue has a name, and no name has more than {_NAME_BYTES_MAX} bytes")
    if given.get("type", _TYPES[0]) not in _TYPES or (not route.exchange and given.keys() & {"type", "key"}):
        raise ValueError(f"{text!r}: type is one of {', '.join(_TYPES)}; type and key belong to an exchange")
    if not is_queue_name(route.queue) or (route.exchange and not is_exchange_name(route.exchange)):
        raise ValueError(f"{text!r}: {NAME_RULE}")
    if not is_vhost_name(route.vhost):
        raise ValueError(f"{text!r}: {VHOST_RULE}")
    if route.vhost == "/":
        raise ValueError(f"{text!r}: vhost is another virtual host than the URL's; the URL names /")
    if (bool(route.topic), bool(route.rabbithub_exchange), route.shared).count(True) > 1:
        raise ValueError(f"{text!r}: topic, rabbithub and shared exclude each other")
    if route.topic:
        _check_topic(text, route.topic)
    return route


def check_broker(sources: Sequence[str], url: str | None, *, is_of_sink: bool) -> None:
    """Raise ValueError for a source that is impossible at its broker.

    ``url`` is where the sources are read; ``is_of_sink``: the AMQP sink publishes there.
    """
    for text in sources:
        route = route_of(text)
        if url is not None and route.vhost == amqp_place(url)[2]:
            raise ValueError(
                f"HOOKWIRE_AMQP_SOURCES: {text!r}: the broker's URL names this virtual host; leave vhost out"
            )
        if route.shared and not is_of_sink:
            needs = "shared=true needs HOOKWIRE_AMQP_URL, with host, port and virtual host of the source's broker"
            raise ValueError(f"HOOKWIRE_AMQP_SOURCES: {text!r}: {needs}")


def _check_topic(text: str, topic: str) -> None:
    try:
        if is_reserved(validate_topic(topic)):
            raise TopicError(f"the topic {topic} is the hub's own")
    except TopicError as error:
        raise ValueError(f"{text!r}: {error}") from None
