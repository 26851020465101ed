"""The events of a message that another program sent."""

from __future__ import annotations

import hashlib
import json

from hub.intake.drafts import drafts_of
from relay.source import SourceMessage


async def test_a_cloudevent_with_a_long_partition_key_arrives_and_keeps_its_order() -> None:
    """The message was parked, though its body is a CloudEvent."""
    sent = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "partitionkey": "p" * 1_025, "data": 1}
    message = SourceMessage(
        "", "q", None, None, None, "application/cloudevents+json", {}, json.dumps(sent).encode(), ()
    )  # fmt: skip
    (draft,), _ = await drafts_of("shop", message, {})
    assert (draft.key, draft.payload) == (f"sha256-{hashlib.sha256(b'p' * 1_025).hexdigest()}", b"1")
