"""Content that comes with its ping, without a fetch ("fat" publish).

    POST /hub/content?hub.topic=URL   the body is the content; authentication decides who may publish
    POST /hub, hub.content            in the form; signed by the secret that publisher and hub share

This works for hosted and foreign topics. The event is committed when the call returns.
"""

from __future__ import annotations

from db.names import TooManyNames
from event.event import Draft
from event.hops import HOPS_HEADER, HOPS_MAX, hops_of
from hub.acceptance import Hub, Named, named_topic
from hub.form import FormRefused
from hub.publish import store_event
from hub.topic_url import hub_url
from webhooks.message import LINK_HEADER, link_header
from webhooks.signature import SignatureRefused, verify_hub_signature

__all__ = ["check_hops", "check_signature", "distribute"]

_KEY = "content"
_PARAMETER = "hub.topic"


def check_signature(hub: Hub, content: bytes, signature: str) -> None:
    """Raise ``FormRefused`` when no secret is configured, or the signature was made with another one."""
    secret = hub.options.publish_secret
    if not secret:
        raise FormRefused(403, "hub.content", "is not taken here without an API key: use POST /hub/content")
    try:
        verify_hub_signature(secret, signature, content)
    except SignatureRefused:
        raise FormRefused(403, "hub.signature", "does not fit the content") from None


def check_hops(value: str | None) -> int:
    """Return the number of hubs that the content has passed; raise ``FormRefused`` 400 for a loop."""
    hops = hops_of(value or "0")
    if hops is None:
        raise FormRefused(
            400, HOPS_HEADER, f"says that this has passed {HOPS_MAX} hubs or more; do they feed each other?"
        )
    return hops


async def distribute(
    hub: Hub, topic_url: str, content: bytes, content_type: str | None, hops: int = 0, known: Named | None = None,
    key_id: str | None = None,
) -> int:  # fmt: skip
    """Publish the content, which has passed ``hops`` hubs, as an event of the topic; return its number. ``known`` is
    the checked topic of the URL. ``key_id`` is the publisher's API key.

    Raises ``FormRefused`` and ``db.errors.DatabaseError``.
    """
    if len(content) > hub.options.fetch_bytes_max:
        raise FormRefused(413, "", f"the content is larger than {hub.options.fetch_bytes_max} bytes")
    headers, key = {HOPS_HEADER: str(hops)} if hops else {}, None
    topic = known or await named_topic(hub, hub.database, topic_url, _PARAMETER)
    if not topic.is_foreign:
        try:
            await hub.names.ensure(topic.name, key_id)
        except TooManyNames as error:
            raise FormRefused(409, "", str(error)) from None
    async with hub.database.transaction() as session:
        if topic.is_foreign:
            await session.execute("foreign.ensure", hub.tenant, topic.name, topic_url)
            # As for fetched content: in order, and with its own links.
            key, headers[LINK_HEADER] = _KEY, link_header(hub_url(hub.options.public_url), topic_url)
        number = await store_event(session, hub.tenant, Draft(topic.name, content, key, content_type, headers))
    hub.on_publish()
    return number
