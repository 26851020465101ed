from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from event.attribute import (
    CloudEventError,
    attributes_of,
    check_attributes,
    check_content_type,
    cloudevents_identity,
    decode_header_value,
    encode_header_value,
    format_time,
)
from event.event import Event

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def an_event(**changes: object) -> Event:
    fields: dict[str, object] = {
        "id": 7,
        "incarnation": "abcd2345",
        "topic": "orders",
        "key": None,
        "content_type": None,
        "headers": {},
        "payload": b"",
        "accepted_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "sequence": 7,
    }
    return Event(**(fields | changes))  # type: ignore[arg-type]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_header_value_survives_encoding_as_printable_ascii(value: str) -> None:
    """WH-C03."""
    encoded = encode_header_value(value)

    assert (decode_header_value(encoded), all("!" <= character <= "~" for character in encoded)) == (value, True)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ('a"b%c d', "a%22b%25c%20d"),
        ("/x?y=z&~!#'()*+,;:@[]{}|\\^`<>", "/x?y=z&~!#'()*+,;:@[]{}|\\^`<>"),
        ("é\x7f", "%C3%A9%7F"),
    ],
)
def test_only_what_the_binding_names_is_encoded_in_upper_case_hex(value: str, encoded: str) -> None:
    """WH-C03."""
    assert encode_header_value(value) == encoded


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        ("%e2%82%ac", "€"),
        ("%41bc", "Abc"),
        ("%2541", "%41"),
        ('"a b"', "a b"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ('"%C3%A9"', "é"),
        ('""', ""),
        ('a"b', 'a"b'),
    ],
)
def test_decoding_undoes_quotes_and_one_round_of_percents(value: str, decoded: str) -> None:
    """WH-C03."""
    assert decode_header_value(value) == decoded


@pytest.mark.parametrize("value", ["%C0%A0", "%FF", "%ED%A0%80", "%", "%4", "%zz", '"a', "é", '"a"b"', '"a\\"'])
def test_a_value_that_is_no_utf8_or_half_quoted_is_refused(value: str) -> None:
    """WH-C03."""
    with pytest.raises(CloudEventError) as caught:
        decode_header_value(value)

    assert caught.value.status_hint == 400


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02t03:04:05.123456789z",
        "2026-01-02T03:04:05+14:00",
        "2016-12-31T23:59:60Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00Z",
    ],
)
def test_every_rfc_3339_time_is_an_attribute(time: str) -> None:
    """B-41."""
    check_attributes(REQUIRED | {"time": time})


@pytest.mark.parametrize(
    "time",
    [
        "",
        "0000-01-01T00:00:00Z",
        "2026-01-02T03:04:05+99:99",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:61Z",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-01-02",
        "٢٠٢٦-01-02T03:04:05Z",
        "1767322800",
    ],
)
def test_any_other_time_is_refused(time: str) -> None:
    """B-41."""
    with pytest.raises(CloudEventError) as caught:
        check_attributes(REQUIRED | {"time": time})

    assert caught.value.status_hint == 422


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        ({"specversion": "1.0", "id": "1", "source": "/s"}, 400),
        (REQUIRED | {"specversion": "0.3"}, 422),
        (REQUIRED | {"id": ""}, 422),
        (REQUIRED | {"subject": ""}, 422),
        (REQUIRED | {"my-ext": "x"}, 400),
        (REQUIRED | {"myExt": "x"}, 400),
        (REQUIRED | {"data": "x"}, 400),
        (REQUIRED | {"": "x"}, 400),
        (REQUIRED | {"x" * 65: "x"}, 400),
        (REQUIRED | {"ext": "a\nb"}, 422),
        (REQUIRED | {"ext": "\x00"}, 422),
        (REQUIRED | {"ext": "\x9f"}, 422),
        (REQUIRED | {"ext": "\ufdd0"}, 422),
        (REQUIRED | {"ext": "\U0001ffff"}, 422),
        (REQUIRED | {"ext": "\ud800"}, 422),
        (REQUIRED | {"ext": "é" * 2049}, 422),
        (REQUIRED | {f"ext{number}": "x" for number in range(61)}, 422),
        (REQUIRED | {f"ext{number}": "x" * 4000 for number in range(5)}, 422),
    ],
)
def test_an_attribute_that_breaks_the_specification_or_a_bound_is_refused(
    attributes: dict[str, str], status: int
) -> None:
    """WH-C01."""
    with pytest.raises(CloudEventError) as caught:
        check_attributes(attributes)

    assert caught.value.status_hint == status


def test_extensions_may_be_empty_and_hold_any_text() -> None:
    check_attributes(REQUIRED | {"ext": "", "x9": "ключ 😀 \u2028"})


@pytest.mark.parametrize("content_type", ["", "text/plain\r\nx: y", "tëxt/plain", "a" * 256])
def test_a_content_type_that_cannot_be_sent_is_refused(content_type: str) -> None:
    with pytest.raises(CloudEventError):
        check_content_type(content_type)


def test_an_identity_tells_source_and_id_apart() -> None:
    """WH-C01."""
    identities = [
        cloudevents_identity({"ce-source": source, "ce-id": id_})
        for source, id_ in [("/s", "1"), ("/s", "1"), ("/s1", ""), ("", "/s1"), ("/" + "s" * 9999, "ключ")]
    ]

    assert (identities[0] == identities[1], len(set(identities)), {len(str(identity)) for identity in identities}) == (
        True,
        4,
        {75},
    )


def test_without_source_and_id_there_is_no_identity() -> None:
    assert [cloudevents_identity({}), cloudevents_identity({"ce-id": "1"})] == [None, None]


def test_a_plain_event_is_given_a_full_set_of_attributes() -> None:
    assert attributes_of(an_event(key="k")) == {
        "specversion": "1.0",
        "id": "evt_abcd2345_7",
        "source": "/topics/orders",
        "type": "hookwire.event",
        "time": "2026-01-02T03:04:05Z",
        "partitionkey": "k",
    }


def test_the_operator_names_source_and_type_of_plain_events() -> None:
    attributes = attributes_of(an_event(), source="https://hub.example/topics/orders", event_type="example.order")

    assert (attributes["source"], attributes["type"]) == ("https://hub.example/topics/orders", "example.order")


def test_a_publishers_attributes_stay_as_they_are() -> None:
    headers = {f"ce-{name}": value for name, value in REQUIRED.items()} | {"ce-ext": "x", "link": "y", "ce-no way": "z"}

    assert attributes_of(an_event(headers=headers, key="k")) == REQUIRED | {"ext": "x"}


def test_a_part_of_the_required_attributes_counts_as_none() -> None:
    """WH-C11: all or none."""
    assert attributes_of(an_event(headers={"ce-id": "1", "ce-source": "/s"})) == attributes_of(an_event())


def test_a_moment_is_written_in_utc() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=timezone(timedelta(hours=2)))

    assert format_time(moment) == "2026-01-02T01:04:05.600000Z"
