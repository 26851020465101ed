"""Drafts: the events of a message, with the headers that an event may have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from event.attribute import HEADER_PREFIX, CloudEventError, encode_header_value
from event.cloudevents import decode_http
from event.event import Draft
from event.topic import key_or_digest
from relay.source import IntakeRefused, SourceMessage
from runtime.large_body import beside_loop_if_large
from webhooks.custom_header import is_private

__all__ = ["drafts_of", "without_private"]


def without_private(message: SourceMessage) -> SourceMessage:
    """Leave out headers that may hold a secret, because the event goes to every subscriber."""
    private = tuple(filter(is_private, message.headers))
    kept = {name: value for name, value in message.headers.items() if name not in private}
    return dataclasses.replace(message, headers=kept, left_out=message.left_out + ("private",) * len(private))


async def drafts_of(topic: str, message: SourceMessage, about: Mapping[str, str]) -> tuple[list[Draft], SourceMessage]:
    """Return the event of a message, or those of a CloudEvents batch; and the message, which names omitted headers.

    CloudEvents attributes in headers are left out if they make no CloudEvent. A body that announces a CloudEvent and
    holds none is refused.
    """
    is_parsed = (message.content_type or "").lower().startswith("application/cloudevents")
    own = {name: value for name, value in message.headers.items() if not name.startswith(HEADER_PREFIX)}
    try:
        drafts = await beside_loop_if_large(len(message.body) if is_parsed else 0, _decoded, topic, message)
    except CloudEventError as error:
        if is_parsed or len(own) == len(message.headers):
            raise IntakeRefused("cloudevent", error.detail) from None
        drafts = _decoded(topic, dataclasses.replace(message, headers=own))
    known = own.keys() | {name for draft in drafts for name in draft.headers}
    lost = message.left_out + ("cloudevent",) * len(message.headers.keys() - known)
    found = [draft._replace(headers={**draft.headers, **own, **about}) for draft in drafts]
    return found, dataclasses.replace(message, left_out=lost)


def _decoded(topic: str, message: SourceMessage) -> list[Draft]:
    attributes = [
        (name.encode(), encode_header_value(value).encode())
        for name, value in message.headers.items()
        if name.startswith(HEADER_PREFIX)
    ]
    return decode_http(topic, message.key, message.content_type, attributes, message.body, key_of=key_or_digest)
