import json
from datetime import UTC, datetime

import pytest

from event.cloudevents import (
    CloudEventError,
    HttpMessage,
    Mode,
    cloudevents_identity,
    decode_http,
    detect,
    encode_binary,
    encode_structured,
)
from event.event import Draft, Event
from tests.event.brokers import amqp_headers, kafka_headers

CE = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
ONE = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"%s}'


def raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def an_event(
    headers: dict[str, str], content_type: str | None = None, payload: bytes = b"", key: str | None = None
) -> Event:
    return Event(
        id=7,
        incarnation="abcd2345",
        topic="orders",
        key=key,
        content_type=content_type,
        headers=headers,
        payload=payload,
        accepted_at=datetime(2026, 1, 2, tzinfo=UTC),
        sequence=7,
    )


# --- detection -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "names", "mode"),
    [
        (None, [], Mode.PLAIN),
        ("text/plain", ["id", "source", "type"], Mode.PLAIN),
        ("text/plain", ["id", "source", "type", "specversion"], Mode.BINARY),
        (None, ["id", "source", "type", "specversion", "ext"], Mode.BINARY),
        ("Application/CloudEvents+JSON; charset=utf-8", ["id", "source", "type", "specversion"], Mode.STRUCTURED),
        ("APPLICATION/cloudevents-BATCH+json", [], Mode.BATCH),
        ("application/cloudevents+avro", ["id", "source", "type", "specversion"], Mode.OPAQUE),
        ("application/cloudevents-batch+avro", [], Mode.OPAQUE),
        ("application/cloudevents", [], Mode.OPAQUE),
        ("application/json", [], Mode.PLAIN),
    ],
)
def test_the_mode_is_told_by_content_type_first_and_headers_second(
    content_type: str | None, names: list[str], mode: Mode
) -> None:
    """WH-C06."""
    assert detect(content_type, names) is mode


# --- decoding ------------------------------------------------------------------------------------------------------


def test_a_plain_body_stays_as_it_is_even_with_some_ce_headers() -> None:
    """WH-C06, WH-C11."""
    headers = raw({"content-type": "text/plain", "ce-id": "1", "user-agent": "x"})

    assert decode_http("orders", "k", "text/plain", headers, b"\x00") == [
        Draft(topic="orders", payload=b"\x00", key="k", content_type="text/plain")
    ]


def test_an_empty_body_without_a_content_type_is_an_event() -> None:
    assert decode_http("orders", None, "", [], b"") == [Draft(topic="orders", payload=b"")]


def test_binary_mode_becomes_plain_text_headers() -> None:
    """WH-C02, WH-C03."""
    headers = raw({"Content-Type": "text/plain", "CE-Specversion": "1.0", "Ce-Id": "1", "ce-source": "/s"})
    headers += raw({"ce-type": ' "t" ', "ce-ext": "Euro%20%e2%82%ac", "x-other": "y"})
    attributes = CE | {"ce-ext": "Euro €"}

    assert decode_http("orders", None, "text/plain", headers, b"{") == [
        Draft(
            topic="orders",
            payload=b"{",
            content_type="text/plain",
            headers=attributes,
            idempotency_key=cloudevents_identity(attributes),
        )
    ]


def test_in_structured_mode_the_body_rules_over_the_headers() -> None:
    """WH-C04."""
    headers = raw(CE | {"ce-id": "other", "ce-ext": "outside"})

    drafts = decode_http("orders", None, STRUCTURED, headers, ONE % b',"data":{"n": 1}')

    assert drafts == [
        Draft(
            topic="orders",
            payload=b'{"n": 1}',
            content_type="application/json",
            headers=CE,
            idempotency_key=cloudevents_identity(CE),
        )
    ]


def test_a_batch_becomes_one_draft_per_event_and_may_be_empty() -> None:
    """WH-C05."""
    body = b"[%s,%s]" % (ONE % b"", ONE.replace(b'"1"', b'"2"') % b',"data_base64":"AA=="')

    batch = decode_http("orders", None, BATCH, [], body)

    assert [(draft.headers["ce-id"], draft.payload) for draft in batch] == [("1", b""), ("2", b"\x00")]
    assert decode_http("orders", None, BATCH, [], b"[]") == []


@pytest.mark.parametrize(("key", "expected"), [(None, "p"), ("k", "k")])
def test_partitionkey_fills_a_missing_key_and_stays_on_the_event(key: str | None, expected: str) -> None:
    """WH-C08."""
    (draft,) = decode_http("orders", key, None, raw(CE | {"ce-partitionkey": "p"}), b"")

    assert (draft.key, draft.headers["ce-partitionkey"]) == (expected, "p")


@pytest.mark.parametrize("content_type", ["application/cloudevents+avro", "application/cloudevents-batch+protobuf"])
def test_an_unknown_format_is_passed_on_as_opaque_bytes(content_type: str) -> None:
    """WH-C06."""
    assert decode_http("orders", None, content_type, raw(CE), b"\x00") == [
        Draft(topic="orders", payload=b"\x00", content_type=content_type)
    ]


def test_a_stray_datacontenttype_header_counts_only_without_a_content_type() -> None:
    """WH-C02."""
    headers = raw(CE | {"ce-datacontenttype": "text/csv"})

    drafts = decode_http("t", None, None, headers, b"") + decode_http("t", None, "text/plain", headers, b"")

    assert [(draft.content_type, dict(draft.headers)) for draft in drafts] == [("text/csv", CE), ("text/plain", CE)]


@pytest.mark.parametrize(
    ("content_type", "headers", "body", "status"),
    [
        pytest.param(None, [*raw(CE), (b"ce-id", b"1")], b"", 400, id="a ce- header twice"),
        pytest.param(None, [*raw(CE), (b"CE-ID", b"2")], b"", 400, id="twice in other letters"),
        pytest.param("a/b", [(b"content-type", b"a/b")] * 2, b"", 400, id="content-type twice"),
        pytest.param(None, raw(CE | {"ce-ext": "%C0%A0"}), b"", 400, id="no UTF-8"),
        pytest.param(None, raw(CE | {"ce-my-ext": "x"}), b"", 400, id="illegal name"),
        pytest.param(None, raw(CE | {"ce-ext": "%00"}), b"", 422, id="control character"),
        pytest.param(None, raw(CE | {"ce-partitionkey": "x" * 1025}), b"", 422, id="partitionkey too long"),
        pytest.param("a\nb", [], b"", 422, id="malformed content type"),
        pytest.param(STRUCTURED + "; charset=utf-16", [], ONE % b"", 415, id="B-37 charset"),
        pytest.param(BATCH + "; charset=utf-7", [], b"[]", 415, id="B-37 batch charset"),
        pytest.param(STRUCTURED, [], b'{"id":"1"}', 400, id="required attribute missing"),
        pytest.param(STRUCTURED, [], b"[]", 400, id="no object"),
        pytest.param(STRUCTURED, [], b"[" * 100_000, 400, id="B-30"),
        pytest.param(STRUCTURED, [], ONE % b',"datacontenttype":"a\\nb"', 422, id="content type with a line break"),
        pytest.param(STRUCTURED, [], ONE % b',"datacontenttype":"application/cloudevents+json"', 422, id="nested"),
        pytest.param(BATCH, [], b"[{}]", 400, id="batch with a bad event"),
        pytest.param(BATCH, [], b"[" + b"{}," * 1000 + b"{}]", 413, id="batch too long"),
    ],
)
def test_a_bad_request_is_refused_with_a_fitting_status(
    content_type: str | None, headers: list[tuple[bytes, bytes]], body: bytes, status: int
) -> None:
    with pytest.raises(CloudEventError) as caught:
        decode_http("orders", None, content_type, headers, body)

    assert caught.value.status_hint == status


# --- encoding ------------------------------------------------------------------------------------------------------


def test_a_plain_event_is_a_cloudevent_in_both_modes() -> None:
    event = an_event({}, "text/plain", b"hi", key="k")
    attributes = {
        "specversion": "1.0",
        "id": "evt_abcd2345_7",
        "source": "/topics/orders",
        "type": "hookwire.event",
        "time": "2026-01-02T00:00:00Z",
        "partitionkey": "k",
    }
    structured = attributes | {"datacontenttype": "text/plain", "data": "hi"}

    assert encode_binary(event) == HttpMessage(
        {"content-type": "text/plain"} | {f"ce-{name}": value for name, value in attributes.items()}, b"hi"
    )
    assert json.loads(encode_structured(event).body) == structured


def test_source_and_type_of_plain_events_are_parameters() -> None:
    message = encode_binary(an_event({}), source="https://hub.example/orders", event_type="example.order")

    assert (message.headers["ce-source"], message.headers["ce-type"]) == ("https://hub.example/orders", "example.order")


def test_an_opaque_event_leaves_as_it_came() -> None:
    """WH-C06."""
    event = an_event({}, "application/cloudevents+avro", b"\x00")
    as_it_came = HttpMessage({"content-type": "application/cloudevents+avro"}, b"\x00")

    assert (encode_binary(event), encode_structured(event)) == (as_it_came, as_it_came)
    assert (kafka_headers(event), amqp_headers(event)) == ({"content-type": b"application/cloudevents+avro"}, {})
