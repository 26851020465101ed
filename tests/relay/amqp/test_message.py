"""How a record looks on AMQP (RQ-10, RO-15, WH-C09)."""

from datetime import datetime, timedelta, timezone

import pytest
from aio_pika import DeliveryMode

from event.carrier import AttributePrefixes
from relay.amqp.message import Unsendable, message_of, routing_key_of
from relay.record import Record
from relay.sink import Refusal
from tests.event.brokers import read_amqp

ACCEPTED_AT = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
CLOUDEVENT = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/git", "ce-type": "push", "ce-subject": "Zürich"}


def record(**changes: object) -> Record:
    plain = Record(
        id=7, shard=0, event_id="evt_abcdefgh_7", tenant="default", topic="git.push", key="site", sequence=7,
        content_type="text/plain", headers={}, payload=b"\x00body\xff", accepted_at=ACCEPTED_AT,
    )  # fmt: skip
    return plain._replace(**changes)


def test_a_message_is_the_payload_with_everything_else_in_properties():
    """RQ-10."""
    message = message_of(
        record(headers={**CLOUDEVENT, "x-trace": "1", "hookwire-hops": "2", "hookwire-term": "forged"}), term=3
    )
    assert (
        message.body, message.message_id, message.content_type, message.delivery_mode, message.timestamp,
        message.headers,
    ) == (
        b"\x00body\xff", "evt_abcdefgh_7", "text/plain", DeliveryMode.PERSISTENT, ACCEPTED_AT,
        {
            "cloudEvents_specversion": "1.0", "cloudEvents_id": "7", "cloudEvents_source": "/git",
            "cloudEvents_type": "push", "cloudEvents_subject": "Zürich", "x-trace": "1",
            "hookwire-hops": "2", "hookwire-event-id": "evt_abcdefgh_7", "hookwire-topic": "git.push",
            "hookwire-key": "site", "hookwire-sequence": 7, "hookwire-term": 3,
            "hookwire-accepted-at": "2025-01-02T01:04:05.678901+00:00",
        },
    )  # fmt: skip


def test_our_headers_can_be_switched_off():
    """RO-15: a publisher's of our names are left out all the same, and properties stay."""
    sent = record(headers={"x-trace": "1", "hookwire-hops": "2", "hookwire-term": "forged"})
    message = message_of(sent, term=3, own_headers=False)
    assert (message.headers, message.message_id) == ({"x-trace": "1", "hookwire-hops": "2"}, "evt_abcdefgh_7")


def test_an_event_without_key_order_or_content_type_has_no_such_headers():
    message = message_of(record(key=None, sequence=None, content_type=None, payload=b""), term=1)
    assert (message.body, message.content_type, sorted(message.headers)) == (
        b"", None, ["hookwire-accepted-at", "hookwire-event-id", "hookwire-term", "hookwire-topic"],
    )  # fmt: skip


def test_a_cloudevent_is_read_back_as_it_was_published():
    """WH-C09."""
    message = message_of(record(headers=CLOUDEVENT), term=1, own_headers=False)
    draft = read_amqp(message.headers, message.content_type, message.body)
    assert (draft.headers, draft.content_type, draft.payload) == (CLOUDEVENT, "text/plain", b"\x00body\xff")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"headers": {"x" * 129: "1"}}, "header_name_length"),
        ({"headers": {"": "1"}}, "header_name_length"),
        ({"headers": {f"x-{n}": "ü" * 8000 for n in range(5)}}, "headers_too_large"),
        ({"content_type": "x" * 256}, "content_type_too_long"),
    ],
)
def test_a_record_that_the_protocol_cannot_carry_is_refused_before_it_is_sent(changes: dict[str, object], reason: str):
    with pytest.raises(Unsendable) as caught:
        message_of(record(**changes), term=1)
    refusal = caught.value.refusal
    assert refusal == Refusal(record(**changes), "record", reason, str(caught.value))


def test_the_routing_key_is_the_topic_or_what_its_settings_say():
    assert (routing_key_of(record()), routing_key_of(record(amqp_routing_key=""))) == ("git.push", "")


def test_a_routing_key_beyond_a_short_string_makes_the_topic_wait():
    """RQ-10, B-50."""
    with pytest.raises(Unsendable) as caught:
        routing_key_of(record(amqp_routing_key="ü" * 128))
    assert (caught.value.refusal.scope, caught.value.refusal.reason) == ("topic", "routing_key_too_long")


@pytest.mark.parametrize(
    ("prefixes", "names"),
    [("cloudEvents_", {"cloudEvents_id"}), ("ce-", {"ce-id"}), ("both", {"cloudEvents_id", "ce-id"})],
)
def test_attributes_are_named_as_the_readers_want_them(prefixes: AttributePrefixes, names: set[str]):
    """FX-05: `ce-` is what the RabbitMQ binding of the CloudEvents SDK for Python reads."""
    message = message_of(record(headers={"ce-id": "1"}), 1, own_headers=False, attributes=prefixes)
    assert message.headers.keys() == names
