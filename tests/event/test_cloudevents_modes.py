"""Round trips over all modes, and the ``cloudevents`` package as an independent reader and writer (WH-C10, OR-13)."""

import json
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.bindings import http as other_http
from cloudevents.core.bindings import kafka as other_kafka
from cloudevents.core.bindings import rabbitmq as other_amqp
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from event.cloudevents import (
    HttpMessage,
    cloudevents_identity,
    decode_http,
    encode_binary,
    encode_structured,
)
from event.event import Draft, Event
from tests.event.brokers import amqp_headers, kafka_headers, read_amqp, read_kafka

TEXTS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]).filter(
        lambda character: ord(character) & 0xFFFE != 0xFFFE and not 0xFDD0 <= ord(character) <= 0xFDEF
    ),
    min_size=1,
    max_size=20,
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)).map(lambda moment: moment.isoformat() + "Z")
NAMES = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: name not in ("data", "datacontenttype", "specversion", "time", "partitionkey")
)
ATTRIBUTES = st.builds(
    lambda required, extensions, time: extensions | required | ({} if time is None else {"time": time}),
    st.fixed_dictionaries({"specversion": st.just("1.0"), "id": TEXTS, "source": TEXTS, "type": TEXTS}),
    st.dictionaries(NAMES, TEXTS, max_size=4),
    st.none() | TIMES,
)
JSON_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | JSON_TEXTS,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(JSON_TEXTS, children, max_size=3),
    max_leaves=8,
)
CONTENTS = st.one_of(
    st.tuples(
        st.just("application/json"),
        st.builds(lambda value, indent: json.dumps(value, indent=indent).encode(), JSON_VALUES, st.none() | st.just(1)),
    ),
    st.tuples(
        st.sampled_from(["text/plain", "text/plain; charset=utf-8", "application/xml"]), st.text().map(str.encode)
    ),
    st.tuples(st.sampled_from([None, "image/png", "application/json", "text/plain"]), st.binary(max_size=40)),
).filter(lambda content: content[0] != "application/json" or content[1] == content[1].strip())


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


def decode_message(message: HttpMessage) -> list[Draft]:
    return decode_http("orders", None, message.headers.get("content-type"), raw(message.headers), message.body)


@settings(deadline=None)
@given(ATTRIBUTES, CONTENTS)
def test_an_event_of_any_mode_leaves_and_returns_in_any_mode(
    attributes: dict[str, str], content: tuple[str | None, bytes]
) -> None:
    """WH-C10."""
    headers = {f"ce-{name}": value for name, value in attributes.items()}
    content_type, payload = content
    event = an_event(headers, content_type, payload)
    draft = Draft("orders", payload, None, content_type, headers, cloudevents_identity(headers))

    assert decode_message(encode_binary(event)) == [draft]
    assert decode_message(encode_structured(event)) == [draft]
    assert read_kafka(kafka_headers(event), payload) == draft
    assert read_amqp(amqp_headers(event), content_type, payload) == draft


def foreign(attributes: dict[str, str], content_type: str | None, data: Any) -> CloudEvent:
    converted: dict[str, Any] = dict(attributes)
    if content_type is not None:
        converted["datacontenttype"] = content_type
    if "time" in attributes:
        converted["time"] = datetime.fromisoformat(attributes["time"])
    return CloudEvent(converted, data)


def payload_of(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else json.dumps(data).encode()


def comparable(event: Any) -> tuple[dict[str, Any], Any]:
    return event.get_attributes(), event.get_data()


FOREIGN_CONTENTS = st.one_of(
    st.tuples(st.just("application/json"), st.dictionaries(JSON_TEXTS, JSON_VALUES, min_size=1, max_size=3)),
    st.tuples(st.just("text/plain"), JSON_TEXTS.filter(bool)),
)
TIMED = ATTRIBUTES.filter(lambda attributes: "time" in attributes)  # the package invents a missing time


@settings(deadline=None)
@given(TIMED, FOREIGN_CONTENTS)
def test_the_cloudevents_package_reads_what_we_write(attributes: dict[str, str], content: tuple[str, Any]) -> None:
    """WH-C10: an independent reader."""
    content_type, data = content
    payload = payload_of(data)
    event = an_event({f"ce-{name}": value for name, value in attributes.items()}, content_type, payload)
    expected = comparable(foreign(attributes, content_type, data))
    binary, structured = encode_binary(event), encode_structured(event)
    amqp = {name.replace("cloudEvents_", "ce-"): value for name, value in amqp_headers(event).items()}

    read = [
        other_http.from_http_event(other_http.HTTPMessage(binary.headers, binary.body)),
        other_http.from_structured_event(other_http.HTTPMessage(structured.headers, structured.body)),
        other_kafka.from_binary_event(other_kafka.KafkaMessage(kafka_headers(event), None, payload)),
        other_amqp.from_binary_event(other_amqp.RabbitMQMessage(amqp, content_type, payload)),
    ]

    assert [comparable(one) for one in read] == [expected] * 4


@settings(deadline=None)
@given(TIMED, st.one_of(FOREIGN_CONTENTS, st.tuples(st.just("image/png"), st.binary(min_size=1))))
def test_we_read_what_the_cloudevents_package_writes(attributes: dict[str, str], content: tuple[str, Any]) -> None:
    """WH-C10: an independent writer."""
    content_type, data = content
    payload = data if isinstance(data, bytes) else payload_of(data)
    event = foreign(attributes, content_type, data)
    binary, structured = other_http.to_binary_event(event), other_http.to_structured_event(event)

    drafts = [
        *decode_http("t", None, binary.headers["content-type"], raw(binary.headers), binary.body),
        *decode_http("t", None, structured.headers["content-type"], [], structured.body),
    ]

    headers = {f"ce-{name}": value for name, value in attributes.items()}
    assert [(draft.headers, draft.content_type, draft.payload) for draft in drafts] == [
        (headers, content_type, payload)
    ] * 2
