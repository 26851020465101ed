from datetime import UTC, datetime

import pytest

from event.event import Draft, Event


def test_an_event_derives_its_public_id() -> None:
    """WH-S05: derived, not stored."""
    event = Event(
        id=42,
        incarnation="abcd2345",
        topic="orders",
        key="k",
        content_type=None,
        headers={},
        payload=b"",
        accepted_at=datetime(2026, 1, 2, tzinfo=UTC),
        sequence=42,
    )

    assert event.event_id == "evt_abcd2345_42"


def test_a_draft_needs_a_topic_and_a_payload_and_cannot_be_changed() -> None:
    draft = Draft("orders", b"")

    assert draft == ("orders", b"", None, None, {}, None)
    with pytest.raises(AttributeError):
        draft.topic = "other"  # type: ignore[attr-defined]
