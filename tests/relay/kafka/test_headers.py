"""Headers of a Kafka record, without a broker (RO-15, WH-C08, EG-17)."""

from __future__ import annotations

from datetime import UTC, datetime

from relay.kafka.headers import Headers
from relay.record import Record

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
RECORD = Record(
    id=7, shard=0, event_id="evt_abcd2345_7", tenant="default", topic="a", key="k", sequence=7,
    content_type="text/plain", headers={"ce-id": "1", "hookwire-hops": "2", "hookwire-term": "9"}, payload=b"",
    accepted_at=MOMENT,
)  # fmt: skip


def test_ours_can_be_switched_off_and_are_then_nobodys() -> None:
    """RO-15: a publisher's of our names are left out all the same; the record's timestamp stays."""
    publishers = [("content-type", b"text/plain"), ("ce_id", b"1"), ("hookwire-hops", b"2")]
    milliseconds = int(MOMENT.timestamp() * 1000)
    assert Headers(3, own=False).of(RECORD) == (publishers, milliseconds)
    assert Headers(3).of(RECORD) == (
        [
            *publishers,
            ("hookwire-event-id", b"evt_abcd2345_7"),
            ("hookwire-term", b"3"),
            ("hookwire-accepted-at", b"2026-01-02T00:00:00+00:00"),
            ("hookwire-sequence", b"7"),
        ],
        milliseconds,
    )
