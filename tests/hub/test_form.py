"""Forms of subscribe, unsubscribe and publish requests: TG-F, B-20..B-29."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.form import FORM_BYTES_MAX, FormDialect, FormRefused, Mode, Pinging, Subscribing, read

FORM = "application/x-www-form-urlencoded"
TOPIC = "http://hub.example/topics/a"
CALLBACK = "http://cb.example/x?y=1"
SUBSCRIBE = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.callback": CALLBACK}
UNSUBSCRIBE = {**SUBSCRIBE, "hub.mode": "unsubscribe"}


def form(base: dict[str, str], *more: tuple[str, str], without: str = "") -> bytes:
    return urlencode([pair for pair in base.items() if pair[0] != without] + list(more)).encode()


def refusal(body: bytes, content_type: str | None = FORM) -> tuple[int, str]:
    with pytest.raises(FormRefused) as caught:
        read(content_type, body)
    assert caught.value.text
    assert caught.value.parameter in caught.value.text
    return caught.value.status, caught.value.parameter


def test_a_subscribe_request_needs_mode_topic_and_callback_only() -> None:
    """WS-01."""
    assert read(FORM, form(SUBSCRIBE)) == Subscribing(Mode.SUBSCRIBE, TOPIC, CALLBACK)


def test_every_parameter_of_a_subscribe_request_is_read() -> None:
    """WS-02, WS-03, SG-3, PS-07."""
    body = form(
        SUBSCRIBE,
        ("hub.lease_seconds", "120"),
        ("hub.secret", "ключ"),
        ("hub.hash_algorithms", "md5, SHA1 sha512"),
        ("hub.verify_token", "t"),
    )

    assert read(FORM, body) == Subscribing(
        Mode.SUBSCRIBE, TOPIC, CALLBACK, 120, "ключ".encode(), signature_method="sha1", verify_token="t"
    )


def test_unknown_parameters_are_ignored_even_when_repeated() -> None:
    """WS-16, PS-02, FX-01: `hub.verify` chooses the default signature and nothing else."""
    unknown = (("foo", "bar"), ("foo", "baz"), ("hub.foo", "hub.bar"), ("hub.verify", "sync"), ("hub.verify", "async"))

    assert read(FORM, form(SUBSCRIBE, *unknown)) == Subscribing(
        Mode.SUBSCRIBE, TOPIC, CALLBACK, signature_method="sha1"
    )


def test_an_unsubscribe_request_does_not_look_at_lease_secret_and_method() -> None:
    """WS-13."""
    garbage = (
        ("hub.lease_seconds", "garbage"),
        ("hub.lease_seconds", "-1"),
        ("hub.secret", "x" * 500),
        ("hub.hash_algorithms", "md5"),
    )

    assert read(FORM, form(UNSUBSCRIBE, *garbage)) == Subscribing(Mode.UNSUBSCRIBE, TOPIC, CALLBACK)


@pytest.mark.parametrize("base", [SUBSCRIBE, UNSUBSCRIBE])
@pytest.mark.parametrize("name", ["hub.mode", "hub.topic", "hub.callback"])
@pytest.mark.parametrize("how", ["missing", "empty", "repeated", "repeated differently"])
def test_a_required_parameter_is_given_exactly_once(base: dict[str, str], name: str, how: str) -> None:
    """WS-10, WS-31, B-20."""
    body = {
        "missing": form(base, without=name),
        "empty": form({**base, name: ""}),
        "repeated": form(base, (name, base[name])),
        "repeated differently": form(base, (name, "other")),
    }[how]

    assert refusal(body) == (400, name)


@pytest.mark.parametrize("name", ["hub.lease_seconds", "hub.secret", "hub.verify_token", "hub.hash_algorithms"])
def test_a_repeated_optional_parameter_is_an_error(name: str) -> None:
    """WS-10."""
    assert refusal(form(SUBSCRIBE, (name, "1"), (name, "1"))) == (400, name)


@pytest.mark.parametrize("mode", ["Subscribe", "SUBSCRIBE", "foo", " subscribe", "subscribe,unsubscribe", "denied"])
def test_the_mode_is_one_of_three_words(mode: str) -> None:
    """WS-11."""
    assert refusal(form({**SUBSCRIBE, "hub.mode": mode})) == (400, "hub.mode")


@pytest.mark.parametrize(
    ("text", "wish"),
    [("", None), ("1", 1), ("0120", 120), ("864000", 864_000), ("1" + "0" * 20, 10**12), ("9" * 5000, 10**12)],
)
def test_a_lease_is_a_wish_in_decimal_digits(text: str, wish: int | None) -> None:
    """WS-12, TG-C, PA-04."""
    asked = read(FORM, form(SUBSCRIBE, ("hub.lease_seconds", text)))

    assert asked == Subscribing(Mode.SUBSCRIBE, TOPIC, CALLBACK, wish)


@pytest.mark.parametrize(
    "text", ["-5", "-1", "0", "00", "+5", "abc", "1e3", "1e30", "1.5", "5.0", "१०", " 5", "5 ", "٣"]
)
def test_a_lease_that_is_no_positive_decimal_integer_is_refused(text: str) -> None:
    """WS-12, TG-C, B-24."""
    assert refusal(form(SUBSCRIBE, ("hub.lease_seconds", text))) == (400, "hub.lease_seconds")


@pytest.mark.parametrize("secret", ["s", "x" * 199, "é" * 99, "\r\n\t", " "])
def test_a_secret_is_shorter_than_two_hundred_bytes(secret: str) -> None:
    """WS-14."""
    asked = read(FORM, form(SUBSCRIBE, ("hub.secret", secret)))

    assert asked == Subscribing(Mode.SUBSCRIBE, TOPIC, CALLBACK, secret=secret.encode())


@pytest.mark.parametrize("secret", ["x" * 200, "é" * 100, "x" * 5000])
def test_a_secret_is_counted_in_bytes(secret: str) -> None:
    """WS-14, B-25."""
    assert refusal(form(SUBSCRIBE, ("hub.secret", secret))) == (400, "hub.secret")


def test_an_empty_secret_is_none() -> None:
    """WS-14."""
    assert read(FORM, form(SUBSCRIBE, ("hub.secret", ""))) == Subscribing(Mode.SUBSCRIBE, TOPIC, CALLBACK)


@pytest.mark.parametrize(
    ("name", "value"), [("hub.hash_algorithms", "md5 crc32"), ("hub.verify_token", "é" * 513), ("hub.secret", "a\0b")]
)
def test_other_bad_values_name_their_parameter(name: str, value: str) -> None:
    """SG-3, B-29."""
    assert refusal(form(SUBSCRIBE, (name, value))) == (400, name)


@pytest.mark.parametrize(
    "content_type",
    [
        FORM,
        FORM.upper(),
        f"{FORM};charset=UTF-8",
        f"{FORM}; charset=utf-8",
        f'{FORM}; Charset="Utf-8" ',
        f"{FORM}; charset=utf8",
        f"{FORM}; x=y",
        f"{FORM};",
    ],
)
def test_the_form_type_is_accepted_with_its_own_charset(content_type: str) -> None:
    """WS-09."""
    assert read(content_type, form(SUBSCRIBE)) == Subscribing(Mode.SUBSCRIBE, TOPIC, CALLBACK)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        f"{FORM}x",
        f"{FORM}; charset=iso-8859-1",
        f"{FORM}; charset=utf-8; charset=utf-16",
    ],
)
def test_any_other_type_is_unsupported(content_type: str | None) -> None:
    """WS-09, B-23."""
    assert refusal(form(SUBSCRIBE), content_type) == (415, "")


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (form(SUBSCRIBE) + b"&hub.secret=%ff", (400, "hub.secret")),
        (b"hub.mode=subscribe&hub.topic=%c0%af&hub.callback=x", (400, "hub.topic")),
        (form(SUBSCRIBE) + b"&a%ed%a0%80b=1", (400, "a parameter's name")),
        (form(SUBSCRIBE) + b"&x=\xff", (400, "")),
        (form(SUBSCRIBE) + b"&x=%00", (400, "x")),
        (b"a=1&" * 64 + form(SUBSCRIBE), (400, "")),
        (b"&" * 1_000_000, (413, "")),
        (form(SUBSCRIBE) + b"&x=" + b"y" * FORM_BYTES_MAX, (413, "")),
        (b"", (400, "hub.mode")),
    ],
)
def test_what_is_no_form_of_ours_is_refused_before_it_is_read(body: bytes, answer: tuple[int, str]) -> None:
    """WS-09, WS-102, B-22, B-25, B-29, PA-01."""
    assert refusal(body) == answer


def test_a_semicolon_separates_nothing() -> None:
    """B-21."""
    body = b"hub.mode=subscribe&hub.topic=http://h/a;hub.topic=b&hub.callback=http://c/"

    assert read(FORM, body) == Subscribing(Mode.SUBSCRIBE, "http://h/a;hub.topic=b", "http://c/")


def test_empty_fields_do_no_harm() -> None:
    """PA-01."""
    assert read(FORM, b"&" + form(SUBSCRIBE) + b"&&") == Subscribing(Mode.SUBSCRIBE, TOPIC, CALLBACK)


def test_percent_encoded_values_are_decoded_once() -> None:
    """WS-23, WS-24, B-29."""
    body = b"hub.mode=subscribe&hub.topic=http://h/%257Eu&hub.callback=http://c/%3Fa%3D%252f%2B%2520"

    assert read(FORM, body) == Subscribing(Mode.SUBSCRIBE, "http://h/%7Eu", "http://c/?a=%2f+%20")


def test_the_repr_of_a_request_shows_neither_callback_nor_secret() -> None:
    """WS-106."""
    asked = read(FORM, form(SUBSCRIBE, ("hub.secret", "canary"), ("hub.verify_token", "canary")))

    assert ("canary" in repr(asked), "cb.example" in repr(asked)) == (False, False)


@pytest.mark.parametrize("name", ["hub.url", "hub.url[]", "hub.topic", "hub.topic[]"])
def test_a_ping_names_topics_repeated_and_in_lists(name: str) -> None:
    """WS-77, TG-J: commas split only where the next URL begins; each topic counts once."""
    named = [(name, "http://a/1,2,https://a/3"), (name, "http://a/4"), (name, "http://a/1,2"), (name, "")]
    body = urlencode([("hub.mode", "publish"), *named]).encode()

    assert read(FORM, body) == Pinging(("http://a/1,2", "https://a/3", "http://a/4"))


def test_a_ping_may_mix_its_names() -> None:
    """WS-77."""
    named = [("hub.topic", "http://a/1"), ("hub.url[]", "http://a/2"), ("hub.url", "http://a/1")]

    assert read(FORM, urlencode([("hub.mode", "publish"), *named]).encode()) == Pinging(("http://a/1", "http://a/2"))


@pytest.mark.parametrize("named", [[], [("hub.url", "")], [("hub.callback", "http://a/")]])
def test_a_ping_names_at_least_one_topic(named: list[tuple[str, str]]) -> None:
    """WS-78."""
    assert refusal(urlencode([("hub.mode", "publish"), *named]).encode()) == (400, "hub.url")


@given(st.binary(max_size=300), st.sampled_from([b"", b"hub.mode=subscribe&", b"hub.mode=publish&hub.url="]))
def test_any_bytes_are_a_form_or_refused(garbage: bytes, start: bytes) -> None:
    """WS-102: never an exception that would be a 500."""
    try:
        status = 202 if read(FORM, start + garbage) else 0
    except FormRefused as refused:
        status = refused.status

    assert status in (202, 400, 413)


@given(
    topic=st.text(min_size=1, max_size=40).filter(lambda text: "\0" not in text),
    callback=st.text(min_size=1, max_size=40).filter(lambda text: "\0" not in text),
)
def test_what_a_client_encodes_is_what_is_read(topic: str, callback: str) -> None:
    """WS-24, WS-40."""
    try:
        body = urlencode({"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": callback}).encode()
    except UnicodeEncodeError:  # lone surrogates have no UTF-8
        return

    assert read(FORM, body) == Subscribing(Mode.SUBSCRIBE, topic, callback)


@pytest.mark.parametrize("urls", [64, 100, 1_000])
def test_a_ping_names_up_to_a_thousand_topics(urls: int) -> None:
    """FX-02: publishers' clients send a hundred at a time; one more than a thousand is refused."""
    body = b"hub.mode=publish" + b"".join(b"&hub.url=http://x.example/%d" % number for number in range(urls))
    found = read(FORM, body, FormDialect.TOLERANT)
    assert isinstance(found, Pinging)
    assert len(found.topic_urls) == urls
    assert refusal(b"hub.mode=publish" + b"&hub.url=http://x/" * 1_001) == (400, "")


@pytest.mark.parametrize(
    ("more", "dialect", "method"),
    [
        ({}, FormDialect.TOLERANT, "sha256"),
        ({"hub.verify": "sync"}, FormDialect.TOLERANT, "sha1"),
        ({"hub.verify": "sync"}, FormDialect.OFF, "sha256"),
        ({"hub.verify": "sync"}, FormDialect.STRICT03, "sha1"),
        ({"hub.verify": "sync", "hub.hash_algorithms": "sha512"}, FormDialect.TOLERANT, "sha512"),
    ],
)
def test_a_subscriber_of_0_3_gets_the_one_signature_that_it_knows(
    more: dict[str, str], dialect: FormDialect, method: str
) -> None:
    """FX-01: django-push sends hub.verify, and ignores every signature but sha1 while it answers 200."""
    found = read(FORM, form({**SUBSCRIBE, **more}), dialect)
    assert isinstance(found, Subscribing)
    assert found.signature_method == method
