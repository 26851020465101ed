"""webhooks/message.py: the headers of one attempt. The wire itself: test_worker.py."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from cloudevents.core.bindings import http as official
from hypothesis import given
from hypothesis import strategies as st

from event.cloudevents import DEFAULT_TYPE
from event.event import Event
from tests.webhooks.verifying import verify_webhook
from webhooks.message import Messages, delivery_message, link_header
from webhooks.signature import HmacKey
from webhooks.subscriber import Subscriber

KEY = HmacKey(bytes(range(1, 33)))


def event(**more: Any) -> Event:
    given = {
        "id": 7, "incarnation": "abcd2345", "topic": "a.b", "key": None, "content_type": None, "headers": {},
        "payload": b'{"n":1}', "accepted_at": datetime(2026, 1, 2, tzinfo=UTC), "sequence": None,
    } | more  # fmt: skip
    return Event(**given)


def subscriber(**more: Any) -> Subscriber:
    given = {
        "id": 1, "public_id": "sub_1", "version": 1, "protocol": "webhook", "target": None, "refusal": "",
        "refusal_kind": "blocked", "keys": [], "hub_secret": None, "signature_method": "sha256", "topic_url": None,
        "format": "as_published", "batch_max": 1, "template": None, "request_origin": None, "schedule": None,
        "age_seconds_max": None,
        "on_4xx": "retry", "on_410": "end", "at_most_once": False, "parks": False, "timeout_seconds": None,
        "lease_until": None, "headers": {}, "read_at": 0.0,
    } | more  # fmt: skip
    return Subscriber(**given)


def headers(of: Event, to: Subscriber) -> dict[str, str]:
    listed, _ = delivery_message(of, to, 1_700_000_000, "https://hub.example")
    assert len(listed) == len(dict(listed)), "no header is sent twice"
    return dict(listed)


def test_the_least_a_delivery_carries() -> None:
    """WH-S16, SG-5: without a key no signature, and nothing that the event has not."""
    assert headers(event(), subscriber()) == {
        "webhook-id": "evt_abcd2345_7",
        "webhook-timestamp": "1700000000",
        "hookwire-topic": "a.b",
        "hookwire-hops": "1",
        "link": '<https://hub.example/topics/a.b>; rel="self"',
    }


@pytest.mark.parametrize(
    "name", ["x-hub-signature", "webhook-signature", "content-type", "authorization", "hookwire-key"]
)
def test_a_publisher_s_header_for_the_id_is_no_header_of_ours(name: str) -> None:
    """FS-13: an older version stored what an SQL publisher chose; a signature was forged by it."""
    sent = headers(event(headers={"hookwire-message-id-header": name}), subscriber())

    assert "evt_abcd2345_7" not in [value for other, value in sent.items() if other != "webhook-id"]


def test_a_publisher_s_secrets_are_not_sent() -> None:
    """FS-13: also those that an older version stored; a subscriber's own headers are."""
    stored = dict.fromkeys(
        ["authorization", "cookie", "proxy-user", "x-forwarded-for", "x-api-key", "x-mine"], "secret"
    )
    sent = headers(event(headers=stored), subscriber(headers={"authorization": "Bearer theirs"}))

    assert {name: value for name, value in sent.items() if name in stored} == {
        "authorization": "Bearer theirs",
        "x-mine": "secret",
    }


def test_the_most_a_delivery_carries() -> None:
    """WS-08, WS-53, WH-S01, WH-S15, WH-O05."""
    given = {"ce-type": "a b", "hookwire-hops": "3", "traceparent": "00-1-2-03"}
    websub = subscriber(
        protocol="websub",
        keys=[KEY, HmacKey(b"x" * 24)],
        hub_secret=b"s3cret",
        topic_url="https://hub.example/topics/a.b?x",
    )
    full = headers(event(key="k\u00e4", content_type="application/json", sequence=7, headers=given), websub)
    first, second = full.pop("webhook-signature").split(" ")
    assert (first[:3], second[:3], first != second) == ("v1,", "v1,", True)
    assert full == {
        "webhook-id": "evt_abcd2345_7",
        "webhook-timestamp": "1700000000",
        "content-type": "application/json",
        "hookwire-topic": "a.b",
        "hookwire-key": "k%C3%A4",
        "hookwire-sequence": "7",
        "hookwire-hops": "4",
        "ce-type": "a%20b",
        "traceparent": "00-1-2-03",
        "link": '<https://hub.example/hub>; rel="hub", <https://hub.example/topics/a.b?x>; rel="self"',
        "x-hub-signature": "sha256=8f0119179f72a1ee1ddd6ea193d72c5430227f4ecb9255eaa54499b96559c4ad",
    }


@pytest.mark.parametrize("hops", ["", "-1", "1.5", "many", "9999", "\u0663", "1" * 5000])
def test_a_hop_count_that_is_none_begins_anew(hops: str) -> None:
    assert headers(event(headers={"hookwire-hops": hops}), subscriber())["hookwire-hops"] == "1"


@pytest.mark.parametrize(
    "name",
    ["webhook-id", "webhook-signature", "x-hub-signature", "hookwire-topic", "hookwire-x", "link", "content-type",
     "user-agent", "host", "content-length", "transfer-encoding", "connection", "expect", "accept-encoding"],
)  # fmt: skip
def test_a_publisher_s_header_takes_no_name_of_ours(name: str) -> None:
    """WH-05, EG-16."""
    assert headers(event(headers={name: "evil"}), subscriber()) == headers(event(), subscriber())


@pytest.mark.parametrize("text", ["plain", "caf\u00e9", "\u0436\u20ac"])
def test_a_header_beyond_ascii_is_percent_encoded_as_the_key_is(text: str) -> None:
    """GW-14: it left as raw UTF-8. A content type is a part of the content, and leaves as it came in."""
    sent = headers(event(content_type=f"text/x; n={text}", headers={"x-mine": text}, key=text), subscriber())
    assert sent["content-type"].encode("latin-1") == f"text/x; n={text}".encode()
    assert (sent["x-mine"], sent["hookwire-key"]) == (quote(text), quote(text))


def test_a_header_in_ascii_leaves_as_it_came_in() -> None:
    assert headers(event(headers={"x-mine": 'a "b" 100%'}), subscriber())["x-mine"] == 'a "b" 100%'


def test_the_link_header_has_the_form_that_simple_parsers_need() -> None:
    """WS-53."""
    assert link_header("https://h/hub", "https://h/t") == '<https://h/hub>; rel="hub", <https://h/t>; rel="self"'


# --- formats -----------------------------------------------------------------------------------------------------

CLOUD = {"ce-specversion": "1.0", "ce-id": "a", "ce-source": "/s", "ce-type": "t \u00e4"}


def sent(of: Event, form: str, **more: Any) -> tuple[dict[str, str], bytes]:
    """What a subscriber of this format gets: content type and CloudEvents headers, and the body."""
    listed, body = delivery_message(of, subscriber(format=form, **more), 1_700_000_000, "https://hub.example")
    return {n: v for n, v in listed if n == "content-type" or n.startswith("ce-")}, body


def test_a_cloudevent_is_sent_in_the_subscriber_s_format() -> None:
    """WH-C02, WH-C04, WH-C11: never a part of the attributes."""
    given = event(content_type="application/json", headers=CLOUD)
    encoded = {**CLOUD, "ce-type": "t%20%C3%A4"}
    assert {form: sent(given, form)[0] for form in ("as_published", "raw", "binary", "structured")} == {
        "as_published": {"content-type": "application/json", **encoded},
        "raw": {"content-type": "application/json"},
        "binary": {"content-type": "application/json", **encoded},
        "structured": {"content-type": "application/cloudevents+json"},
    }
    assert json.loads(sent(given, "structured")[1]) == {
        "specversion": "1.0", "id": "a", "source": "/s", "type": "t \u00e4", "datacontenttype": "application/json",
        "data": {"n": 1},
    }  # fmt: skip


def test_a_plain_event_becomes_a_cloudevent_where_that_is_wanted() -> None:
    """WH-C11: all required attributes are made up, or none."""
    plain = event()
    assert [sent(plain, form) for form in ("as_published", "raw")] == [({}, plain.payload)] * 2
    read = official.from_http_event(official.HTTPMessage(*sent(plain, "binary")))
    assert (read.get_source(), read.get_id()) == ("https://hub.example/topics/a.b", plain.event_id)


@pytest.mark.parametrize("form", ["binary", "structured"])
@pytest.mark.parametrize(
    "payload", [b'{"n":1}', b"", b"\x00\xff", "\u20ac".encode()], ids=["json", "none", "bytes", "text"]
)
def test_the_official_package_reads_what_is_sent(form: str, payload: bytes) -> None:
    """WH-C10: the `cloudevents` package as oracle."""
    given = event(payload=payload, content_type="application/json" if payload == b'{"n":1}' else "text/plain")
    read = official.from_http_event(official.HTTPMessage(*sent(given, form)))
    assert (read.get_id(), read.get_type(), read.get_specversion()) == (given.event_id, DEFAULT_TYPE, "1.0")


def test_a_signature_is_over_the_bytes_of_the_format_that_is_sent() -> None:
    """WH-C10, WH-S02; an empty body goes too (WH-C15)."""
    listed, body = delivery_message(
        event(payload=b""), subscriber(format="structured", keys=[KEY]), 1_700_000_000, "https://hub.example"
    )
    verify_webhook([KEY], dict(listed), body, 1_700_000_000)
    assert body != b""


def test_an_event_in_a_format_that_we_do_not_read_goes_as_it_is() -> None:
    """WH-C07."""
    opaque = event(content_type="application/cloudevents+avro", payload=b"\x00")
    assert [sent(opaque, form) for form in ("binary", "structured")] == [
        ({"content-type": "application/cloudevents+avro"}, b"\x00")
    ] * 2


def test_after_consent_every_delivery_says_who_sends() -> None:
    """WH-C14."""
    assert headers(event(), subscriber(request_origin="hub.example"))["webhook-request-origin"] == "hub.example"


def test_another_hub_is_told_that_the_topic_has_changed() -> None:
    """WS-74: a ping that names the topic's URL; the content is for it to fetch."""
    listed, body = delivery_message(event(), subscriber(format="websub_ping"), 1_700_000_000, "https://hub.example")

    assert (dict(listed)["content-type"], body) == (
        "application/x-www-form-urlencoded", b"hub.mode=publish&hub.url=https%3A%2F%2Fhub.example%2Ftopics%2Fa.b",
    )  # fmt: skip


# --- the parts that subscribers share ------------------------------------------------------------------------------

HEADERS = st.dictionaries(
    st.sampled_from(["x-a", "authorization", "hookwire-tombstone", "hookwire-hops", "ce-id", "hookwire-link"]),
    st.sampled_from(["1", "true", "café"]),
)
EVENTS = st.builds(
    event,
    id=st.integers(1, 3), headers=HEADERS, key=st.sampled_from([None, "k ö"]), sequence=st.sampled_from([None, 4]),
    content_type=st.sampled_from([None, "text/plain"]), payload=st.sampled_from([b"", b'{"n":1}', bytes(40_000)]),
)  # fmt: skip
SUBSCRIBERS = st.builds(
    subscriber,
    format=st.sampled_from(["as_published", "raw", "binary", "structured", "websub_ping", "slack"]),
    template=st.sampled_from([None, "new"]), headers=st.sampled_from([{}, {"x-a": "mine"}]),
    protocol=st.sampled_from(["webhook", "websub"]), topic_url=st.just("https://t/x"),
    hub_secret=st.sampled_from([None, b"s"]), keys=st.sampled_from([[], [KEY]]),
)  # fmt: skip


@given(st.lists(EVENTS, min_size=1, max_size=3), st.lists(SUBSCRIBERS, min_size=1, max_size=4))
def test_a_worker_s_messages_are_those_of_each_subscriber_alone(events: list[Event], to: list[Subscriber]) -> None:
    """WH-S02: what is made once per event and format holds nothing of a subscriber, nor of another event of its id."""
    messages = Messages("https://hub.example")
    pairs = [(of, one) for of in events for one in (*to, *to)]

    assert [messages.delivery(of, one, 1_700_000_000) for of, one in pairs] == [
        delivery_message(of, one, 1_700_000_000, "https://hub.example") for of, one in pairs
    ]


def test_a_worker_keeps_the_parts_of_few_events_and_of_small_ones() -> None:
    messages, to = Messages("https://hub.example"), subscriber()
    for number in range(1, 1_000):
        messages.delivery(event(id=number), to, 1_700_000_000)
    messages.delivery(event(id=1_000, payload=bytes(40_000)), to, 1_700_000_000)

    assert [name[0] for name in messages._parts] == [*range(744, 1_000)]
