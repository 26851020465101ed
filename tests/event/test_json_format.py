import base64
import json

import pytest

from event.attribute import CloudEventError
from event.json_format import Parts, charset_is_utf8, is_json_type, read_batch, read_one, write_one

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
ENVELOPE = json.dumps(ATTRIBUTES)[:-1]


def an_envelope(members: str) -> bytes:
    return f"{ENVELOPE},{members}}}".encode()


@pytest.mark.parametrize(
    ("members", "content_type", "payload"),
    [
        ('"data":{"n": 1.50}', "application/json", b'{"n": 1.50}'),
        ('"data" : [ 1 , 2 ] ', "application/json", b"[ 1 , 2 ]"),
        ('"data":"text"', "application/json", b'"text"'),
        ('"datacontenttype":"application/x+json; a=b","data":"\\u00e9"', "application/x+json; a=b", b'"\\u00e9"'),
        ('"datacontenttype":"text/plain","data":"\\u00e9\\n"', "text/plain", "é\n".encode()),
        ('"datacontenttype":"text/plain; charset=\\"UTF-8\\"","data":"é"', 'text/plain; charset="UTF-8"', b"\xc3\xa9"),
        ('"data_base64":"AP8Q"', None, b"\x00\xff\x10"),
        ('"datacontenttype":"application/json","data_base64":"e30="', "application/json", b"{}"),
        ('"data_base64":""', None, b""),
        ('"datacontenttype":"image/png"', "image/png", b""),
        ('"data":null', None, b""),
        ('"data":{},"data_base64":null', "application/json", b"{}"),
        ('"datacontenttype":null,"data":1', "application/json", b"1"),
    ],
)
def test_the_data_become_the_payload(members: str, content_type: str | None, payload: bytes) -> None:
    """WH-C07: JSON keeps its source bytes, text becomes UTF-8, base64 is decoded and assumes nothing."""
    assert read_one(an_envelope(members)) == Parts(ATTRIBUTES, content_type, payload)


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ('"data":1,"data_base64":"AA=="', 400),
        ('"data":null,"data_base64":"AA=="', 400),
        ('"data_base64":1', 422),
        ('"data_base64":"A"', 422),
        ('"data_base64":"AA==\\n"', 422),
        ('"data_base64":"é"', 422),
        ('"datacontenttype":"text/plain","data":{}', 422),
        ('"datacontenttype":"text/plain; charset=utf-16","data":"a"', 422),
        ('"ext":1.5', 422),
        ('"ext":[]', 422),
        ('"ext":{}', 422),
        ('"ext":2147483648', 422),
        ('"id":"2"', 400),
        ('"data":"\\u0000"', 422),
        ('"data":NaN', 400),
    ],
)
def test_an_event_that_breaks_the_format_is_refused(members: str, status: int) -> None:
    """WH-C07, B-32..B-34."""
    with pytest.raises(CloudEventError) as caught:
        read_one(an_envelope(members))

    assert caught.value.status_hint == status


def test_typed_attributes_become_their_canonical_strings_and_null_is_absent() -> None:
    """WH-C07."""
    parts = read_one(an_envelope('"a":true,"b":false,"c":-2147483648,"d":null,"e":""'))

    assert parts.attributes == ATTRIBUTES | {"a": "true", "b": "false", "c": "-2147483648", "e": ""}


@pytest.mark.parametrize(
    ("content_type", "payload", "member"),
    [
        ("application/json", b'{"n": 1.50}\n', '"data":{"n": 1.50}'),
        ("application/json", b"null", '"data_base64":"bnVsbA=="'),
        ("application/json", b"{broken", '"data_base64":"e2Jyb2tlbg=="'),
        ("application/json", b'"\\u0000"', '"data_base64":"Ilx1MDAwMCI="'),
        ("text/plain", "é\n\x1b".encode(), '"data":"é\\n\\u001b"'),
        ("image/svg+xml", b"<a/>", '"data":"<a/>"'),
        ("text/plain", b"\xff", '"data_base64":"/w=="'),
        ("text/plain", b"\x00", '"data_base64":"AA=="'),
        ("text/plain; charset=iso-8859-1", b"a", '"data_base64":"YQ=="'),
        ("image/png", b"\x89PNG", '"data_base64":"iVBORw=="'),
    ],
)
def test_the_payload_becomes_the_fittest_data_member(content_type: str, payload: bytes, member: str) -> None:
    """WH-C07."""
    written = write_one(Parts({"id": "1"}, content_type, payload)).decode()

    assert written == f'{{"id":"1","datacontenttype":{json.dumps(content_type)},{member}}}'


@pytest.mark.parametrize(("payload", "written"), [(b"", b'{"id":"1"}'), (b"{}", b'{"id":"1","data_base64":"e30="}')])
def test_without_a_content_type_nothing_is_assumed(payload: bytes, written: bytes) -> None:
    assert write_one(Parts({"id": "1"}, None, payload)) == written


def test_json_nested_to_the_limit_still_reads_back_from_a_batch() -> None:
    payloads = [b"[" * depth + b"]" * depth for depth in range(60, 66)]
    batch = [Parts(ATTRIBUTES, "application/json", payload) for payload in payloads]

    written = b"[" + b",".join(write_one(parts) for parts in batch) + b"]"
    assert read_batch(written, events_max=10) == batch


def test_a_batch_may_be_empty() -> None:
    """WH-C05."""
    assert read_batch(b" [ ] ", events_max=1) == []


def test_a_batch_is_bounded() -> None:
    with pytest.raises(CloudEventError) as caught:
        read_batch(b"[{},{}]", events_max=1)

    assert caught.value.status_hint == 413


def test_a_bad_event_of_a_batch_is_named_by_its_position() -> None:
    with pytest.raises(CloudEventError, match="event 1 of the batch: an event has data or data_base64"):
        read_batch(b'[{},{"data":1,"data_base64":""}]', events_max=2)


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b"\xff"])
def test_what_is_no_json_object_is_no_event(body: bytes) -> None:
    with pytest.raises(CloudEventError) as caught:
        read_one(body)

    assert caught.value.status_hint == 400


def test_json_types_are_told_by_their_subtype() -> None:
    types = ["application/json", "text/JSON ; a=b", "application/vnd.x+json", "application/jsonp", "json", "text/plain"]

    assert [is_json_type(content_type) for content_type in types] == [True, True, True, False, False, False]


def test_charsets_that_utf8_contains_are_known() -> None:
    types = ["text/plain", "text/plain;charset=UTF-8", 'a/b; x=y; CHARSET="us-ascii"', "text/plain; charset=utf-7"]

    assert [charset_is_utf8(content_type) for content_type in types] == [True, True, True, False]


def test_long_binary_data_are_whole() -> None:
    payload = bytes(range(256)) * 100

    assert (
        json.loads(write_one(Parts({}, "x/y", payload)).replace(b"{,", b"{"))["data_base64"]
        == base64.b64encode(payload).decode()
    )
