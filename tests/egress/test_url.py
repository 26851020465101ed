"""egress/url.py: parsed once, strictly; what is sent is what was given (PA-06, EG-07, EG-08, WS-21..27, WH-T06)."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.failure import NOT_ALLOWED
from egress.guard import GuardPolicy, networks
from egress.url import Target, UrlRefused, host_spellings, literal_address, parse_target, with_query
from tests.hostile.urls import REBOUND, hostile_urls

STRICT = GuardPolicy()
HIGH_PORTS = GuardPolicy(allow_high_ports=True)


def _refusal(raw: str, policy: GuardPolicy = STRICT) -> UrlRefused:
    with pytest.raises(UrlRefused) as caught:
        parse_target(raw, policy)
    return caught.value


def test_a_target_has_a_judged_and_a_raw_form() -> None:
    assert parse_target("HTTPS://Hooks.Example:8443/a/../%7e?x=%2f#"[:-1], STRICT) == Target(
        raw="HTTPS://Hooks.Example:8443/a/../%7e?x=%2f",
        scheme="https",
        host="hooks.example",
        port=8443,
        request_target=b"/a/../%7e?x=%2f",
        host_header="hooks.example:8443",
        is_tls=True,
    )


@pytest.mark.parametrize(
    ("raw", "host", "port", "host_header"),
    [
        ("http://example.com", "example.com", 80, "example.com"),
        ("http://example.com:80/", "example.com", 80, "example.com"),
        ("https://example.com:443/", "example.com", 443, "example.com"),
        ("http://example.com:443/", "example.com", 443, "example.com:443"),
        ("https://example.com./", "example.com", 443, "example.com"),
        ("https://Bücher.example/", "xn--bcher-kva.example", 443, "xn--bcher-kva.example"),
        ("https://faß.de/", "xn--fa-hia.de", 443, "xn--fa-hia.de"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "xn--bcher-kva.example"),
        ("https://例え。テスト/", "xn--r8jz45g.xn--zckzah", 443, "xn--r8jz45g.xn--zckzah"),
        ("https://xn--i-7iq.ws/", "xn--i-7iq.ws", 443, "xn--i-7iq.ws"),
        ("https://my_host.example/", "my_host.example", 443, "my_host.example"),
        ("https://1.2.3.4.example/", "1.2.3.4.example", 443, "1.2.3.4.example"),
        ("http://93.184.216.34/", "93.184.216.34", 80, "93.184.216.34"),
        ("http://[2606:2800:0220:1::1]/", "2606:2800:220:1::1", 80, "[2606:2800:220:1::1]"),
        ("https://[2606:4700::1111]:8443/", "2606:4700::1111", 8443, "[2606:4700::1111]:8443"),
    ],
)
def test_hosts_are_normalised_for_lookup_tls_and_the_host_field(
    raw: str, host: str, port: int, host_header: str
) -> None:
    """EG-07, OB-14: IDNA by our own function, one trailing dot stripped."""
    target = parse_target(raw, STRICT)
    assert (target.host, target.port, target.host_header) == (host, port, host_header)


@pytest.mark.parametrize(
    ("suffix", "request_target"),
    [
        ("", b"/"),
        ("/", b"/"),
        ("?", b"/?"),
        ("?a=1", b"/?a=1"),
        ("/?", b"/?"),
        ("/a?b?c/d", b"/a?b?c/d"),
        ("/%7E%7e/./a//../b;v=1", b"/%7E%7e/./a//../b;v=1"),
        ("/cb?^z=y&a=b", b"/cb?^z=y&a=b"),
        ("/cb?a=%2f+%20", b"/cb?a=%2f+%20"),
        ("/cb?a&b=&=c", b"/cb?a&b=&=c"),
        ('/cb?a="q"{}|\\`<>', b'/cb?a="q"{}|\\`<>'),
        ("/é?ü=ß", b"/%C3%A9?%C3%BC=%C3%9F"),
        ("/a b", b"/a%20b"),
        ("/%zz%", b"/%zz%"),
        ("/@x:y", b"/@x:y"),
        ("?@127.0.0.1/", b"/?@127.0.0.1/"),
    ],
)
def test_path_and_query_are_sent_as_given_but_for_bytes_a_request_line_cannot_hold(
    suffix: str, request_target: bytes
) -> None:
    """WS-24, WS-26, WS-62, OB-14."""
    assert parse_target(f"https://hooks.example{suffix}", STRICT).request_target == request_target


@pytest.mark.parametrize(
    ("host", "spellings"),
    [
        ("Shop.Example.", ["shop.example"]),
        ("[2001:db8::1]", ["[2001:db8::1]"]),
        ("BÜCHER.example", ["bÜcher.example", "bücher.example", "xn--bcher-kva.example"]),
        ("xn--bcher-kva.example.", ["xn--bcher-kva.example", "bücher.example"]),
        ("☃.example", ["☃.example"]),
        ("xn--a.example", ["xn--a.example"]),
    ],
)
def test_a_host_is_known_by_each_of_its_spellings(host: str, spellings: list[str]) -> None:
    """CN-06: as a callback has it, whichever a person looks for."""
    assert host_spellings(host) == spellings


def _is_refused(raw: str) -> bool:
    try:
        parse_target(raw, HIGH_PORTS)
    except UrlRefused:
        return True
    return False


def test_hostile_urls_are_refused_as_text() -> None:
    """Section 5.5: nothing is looked up; names that are hostile only by their addresses are the guard's."""
    rebound = {f"http://{host}/" for host in REBOUND}
    texts = [raw for raw in hostile_urls() if raw not in rebound]

    assert len(texts) == 500
    assert [raw for raw in texts if not _is_refused(raw)] == []


@pytest.mark.parametrize("raw", ["https://10.0.0.1/", "https://localhost/", "https://[::1]/", "https://a.internal/"])
def test_every_denied_target_reads_the_same_to_a_tenant(raw: str) -> None:
    """EG-03; the operator's text names what would allow it."""
    refusal = _refusal(raw)
    assert (refusal.reason, "HOOKWIRE_EGRESS_ALLOW" in refusal.operator_reason) == (NOT_ALLOWED, True)


@pytest.mark.parametrize(
    ("policy", "raw"),
    [
        (GuardPolicy(allow_hosts=("receiver",)), "http://receiver/"),
        (GuardPolicy(allow_hosts=("*.internal",)), "http://hooks.internal/"),
        (GuardPolicy(allow_hosts=("localhost",), allow_high_ports=True), "http://LOCALHOST:9000/hook"),
        (GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"]), allow_high_ports=True), "http://127.0.0.1:9000/"),
        (GuardPolicy(allow_cidrs=networks(["::1/128"])), "http://[::1]/"),
        (GuardPolicy(ports=frozenset({5432})), "http://hooks.example:5432/"),
        (GuardPolicy(allow_metadata=True, allow_cidrs=networks(["169.254.0.0/16"])), "http://169.254.169.254/"),
    ],
)
def test_the_operator_can_allow_what_is_denied(policy: GuardPolicy, raw: str) -> None:
    """EG-12."""
    assert parse_target(raw, policy).raw == raw


@pytest.mark.parametrize(
    ("policy", "raw"),
    [
        (GuardPolicy(allow_hosts=("*.internal",)), "http://metadata.google.internal/"),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0"])), "http://169.254.169.254/"),
        (GuardPolicy(own_endpoints=frozenset({("hub.example", 443)})), "https://HUB.example./topics/a"),
        (GuardPolicy(own_endpoints=frozenset({("93.184.216.34", 80)})), "http://93.184.216.34/"),
        (GuardPolicy(allow_http=False), "http://hooks.example/"),
        (GuardPolicy(), "http://hooks.example:9000/"),
    ],
)
def test_metadata_and_own_addresses_stay_denied_whatever_is_allowed(policy: GuardPolicy, raw: str) -> None:
    """EG-07, EG-12, 5.2 (own endpoints: loops, also through the public URL)."""
    assert _refusal(raw, policy)


def test_a_verification_url_may_be_longer_than_a_callback() -> None:
    """WS-102 bounds what strangers send, not what the hub appends."""
    callback = parse_target("https://hooks.example/" + "a" * 2026, STRICT)
    assert len(callback.raw) == 2048
    assert len(callback.with_query([("hub.topic", "t" * 3000)]).request_target) > 5000


@pytest.mark.parametrize(
    ("raw", "appended"),
    [
        ("http://h.example", "http://h.example?hub.mode=x"),
        ("http://h.example/cb", "http://h.example/cb?hub.mode=x"),
        ("http://h.example/cb?", "http://h.example/cb?hub.mode=x"),
        ("http://h.example/cb?a=1&", "http://h.example/cb?a=1&&hub.mode=x"),
        ("http://h.example/cb?foo=bar&red=fish", "http://h.example/cb?foo=bar&red=fish&hub.mode=x"),
        ("http://h.example/cb?a=%2f+%20", "http://h.example/cb?a=%2f+%20&hub.mode=x"),
        ("http://h.example/cb?hub.mode=evil", "http://h.example/cb?hub.mode=evil&hub.mode=x"),
        ("http://h.example/cb?a?", "http://h.example/cb?a?&hub.mode=x"),
    ],
)
def test_parameters_are_appended_and_nothing_else_changes(raw: str, appended: str) -> None:
    """WS-24, WS-25, WS-27."""
    assert with_query(raw, [("hub.mode", "x")]) == appended
    assert parse_target(raw, STRICT).with_query([("hub.mode", "x")]) == parse_target(appended, STRICT)


def test_values_are_percent_encoded_with_twenty_for_a_space() -> None:
    """WS-24, HD-18."""
    topic = "http://t.example/a b?x=1&y=é+~"
    raw = with_query("http://h.example/", [("hub.topic", topic)])
    assert raw == "http://h.example/?hub.topic=http%3A%2F%2Ft.example%2Fa%20b%3Fx%3D1%26y%3D%C3%A9%2B~"
    assert parse_qsl(urlsplit(raw).query) == [("hub.topic", topic)]


def test_a_query_without_parameters_leaves_the_target_unchanged() -> None:
    assert with_query("http://h.example/?", []) == "http://h.example/?"


def test_a_target_shows_neither_path_nor_query() -> None:
    """SE-07, SE-09: callback URLs are secrets."""
    assert "s3cret" not in repr(parse_target("https://hooks.example/s3cret?token=s3cret", STRICT))


@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("a.example", "None"), ("1.2.3.example", "None")]
)
def test_a_literal_is_told_from_a_name(host: str, address: str) -> None:
    assert str(literal_address(host)) == address


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://", "http://[", "https://a.example"]))
def test_any_text_is_a_target_or_refused(text: str, prefix: str) -> None:
    """Fuzz: no other exception, and what passes fits a request line and names one host."""
    try:
        target = parse_target(prefix + text, HIGH_PORTS)
    except UrlRefused:
        return
    assert target.raw == prefix + text
    assert target.request_target.startswith(b"/")
    assert all(0x21 <= byte <= 0x7E for byte in target.request_target)
    assert set(target.host) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._:")
