"""A callback URL, parsed once.

An untrusted URL is kept in two forms that never mix. The **judged** form (scheme, host, port) is normalised, looked up
and dialled. The **raw** form (path and query) is sent byte for byte. Rebuilding a URL from its parts changes capability
URLs, and query strings that subscribers compare as text. So this module never rebuilds a URL.

    raw = scheme "://" authority suffix          authority -> host, port   (RFC 3986 section 3.2, made strict)
                                 suffix    -> request target: "/" first, bytes illegal in a request line escaped

A URL that two parsers could read differently is refused: user info, backslash before the host, odd spellings of IPv4,
zones, fragments, empty ports.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote

import idna

from egress.failure import NOT_ALLOWED
from egress.guard import Address, GuardPolicy, is_port_allowed, judge, judge_name

URL_BYTES_MAX = 2048
"""Longest URL accepted from an untrusted source."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"(https?)://", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER_LIKE = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_REQUEST_LINE = re.compile(rb"[^\x21-\x7e]")


class UrlRefused(ValueError):
    """The URL may not be used as a target.

    Attributes:
        reason: a short text that the URL's owner may read.
        operator_reason: the same with details for operators only (which range, which setting).
    """

    def __init__(self, reason: str, operator_reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.operator_reason = operator_reason or reason


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a request; only `parse_target` makes it. Its repr hides path and query: they are secrets.

    Attributes:
        raw: the URL as given.
        scheme: `http` or `https`.
        host: lower-case ASCII (IDNA A-labels) without trailing dot, or a canonical IP literal without brackets.
        port: 1-65535.
        request_target: path and query for the request line, as given; at least `/`.
        host_header: value of `Host`: brackets where needed, port only when not the scheme's default.
        is_tls: whether TLS is spoken.
    """

    raw: str = field(repr=False)
    scheme: str
    host: str
    port: int
    request_target: bytes = field(repr=False)
    host_header: str
    is_tls: bool

    def with_query(self, params: Iterable[tuple[str, str]]) -> "Target":
        """Return the same target with parameters appended to its query (see `with_query`); nothing is parsed again."""
        raw = with_query(self.raw, params)
        suffix = raw[len(self.raw) :].encode("ascii")
        # "http://h" has no "/" of its own; the request target has one already, so the appended text fits both.
        return replace(self, raw=raw, request_target=self.request_target + suffix)


def parse_target(raw: str, policy: GuardPolicy, *, bytes_max: int = URL_BYTES_MAX) -> Target:
    """Parse and judge a URL's text; nothing is looked up and no socket is used.

    Raises:
        UrlRefused: the text is no acceptable URL, or its name, literal address or port is denied by policy.
    """
    scheme, authority, suffix = _split(raw, bytes_max)
    if scheme == "http" and not policy.allow_http:
        raise UrlRefused("the URL must use https")
    host_text, port_text = _split_authority(authority)
    port = _port(port_text, scheme, policy)
    literal, host = _host(host_text)
    _judge_static(literal, host, port, policy)
    shown = f"[{host}]" if isinstance(literal, IPv6Address) else host
    return Target(
        raw=raw,
        scheme=scheme,
        host=host,
        port=port,
        request_target=_request_target(suffix),
        host_header=shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}",
        is_tls=scheme == "https",
    )


def with_query(raw: str, params: Iterable[tuple[str, str]]) -> str:
    """Append percent-encoded parameters to a URL's query and change nothing else.

    An existing query stays byte for byte and comes first, also when it ends in `&` or uses the same names; a space
    becomes `%20`. The URL must have no fragment.
    """
    added = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in params)
    if not added:
        return raw
    _, mark, query = raw.partition("?")
    if not mark:
        return f"{raw}?{added}"
    return f"{raw}&{added}" if query else raw + added


def literal_address(host: str) -> Address | None:
    """Return the address when a target's host is a literal, else None."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def host_spellings(host: str) -> list[str]:
    """Return the spellings of a host in URLs: as given with small ASCII letters, in ASCII, and in Unicode.

    They have no final dot. A text that is no host name has the first spelling alone.
    """
    name = host.removesuffix(".")
    found = ["".join(letter.lower() if letter.isascii() else letter for letter in name)]
    if not name.isascii() or "xn--" in found[0]:
        try:
            found += [name.lower(), ascii_name := _ascii_name(name)]
            found.append(idna.decode(ascii_name, uts46=True))
        except (UrlRefused, UnicodeError):  # such as an emoji, which IDNA 2008 does not know
            pass
    return list(dict.fromkeys(found))


def _split(raw: str, bytes_max: int) -> tuple[str, str, str]:
    try:
        length_bytes = len(raw.encode("utf-8"))
    except UnicodeEncodeError:
        raise UrlRefused("the URL is not valid Unicode text") from None
    if length_bytes > bytes_max:
        raise UrlRefused(f"the URL is longer than {bytes_max} bytes")
    if _CONTROL.search(raw):
        raise UrlRefused("the URL contains a control character")
    if "#" in raw:
        raise UrlRefused("the URL must not have a fragment")
    match = _SCHEME.match(raw)
    if match is None:
        raise UrlRefused("the URL must start with http:// or https://")
    rest = raw[match.end() :]
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    return match[1].lower(), rest[:end], rest[end:]


def _split_authority(authority: str) -> tuple[str, str | None]:
    if "@" in authority:
        raise UrlRefused("the URL must not contain credentials")
    if authority.startswith("["):
        host, bracket, tail = authority.partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise UrlRefused("the URL's host is malformed")
        return host + bracket, tail[1:] if tail else None
    host, colon, port = authority.partition(":")
    return host, port if colon else None


def _port(text: str | None, scheme: str, policy: GuardPolicy) -> int:
    if text is None:
        port = _DEFAULT_PORTS[scheme]
    elif _PORT.fullmatch(text) and int(text) <= 65535:
        port = int(text)
    else:
        raise UrlRefused("the URL's port is malformed")
    if not is_port_allowed(port, policy):
        ports = ", ".join(
            [*map(str, sorted(policy.ports)), *(["most from 1024 on"] if policy.allow_high_ports else [])]
        )
        raise UrlRefused(f"port {port} is not allowed; allowed are {ports}")
    return port


def _host(text: str) -> tuple[Address | None, str]:
    if text.startswith("["):
        return _ipv6(text[1:-1])
    host = _ascii_name(text).removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) and _is_sound_alabel(label) for label in labels):
        raise UrlRefused("the URL's host is malformed")
    if not _NUMBER_LIKE.fullmatch(labels[-1]):
        return None, host
    try:
        address = IPv4Address(host)
    except AddressValueError:
        # 127.1, 0x7f.1, 2130706433: resolvers read them as addresses, so only the one canonical spelling passes.
        raise UrlRefused("the URL's host is not a canonical IPv4 address") from None
    return address, str(address)


def _ipv6(text: str) -> tuple[Address, str]:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise UrlRefused("the URL's host is not an IPv6 address") from None
    if address.scope_id is not None:
        raise UrlRefused("the URL's host must not have a zone")
    return address, str(address)


def _ascii_name(text: str) -> str:
    if text.isascii():
        return text.lower()
    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise UrlRefused("the URL's host is not a valid international name") from None


def _is_sound_alabel(label: str) -> bool:
    """Return whether an `xn--` label is the encoding of visible text that needs one; other labels are sound.

    This is laxer than IDNA 2008, which would refuse registered names with emoji. The label is looked up unchanged, so
    it cannot mean another host.
    """
    if not label.startswith("xn--"):
        return True
    try:
        text = label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return False
    return text.isprintable() and not text.isascii() and text.encode("punycode") == label[4:].encode("ascii")


def _judge_static(literal: Address | None, host: str, port: int, policy: GuardPolicy) -> None:
    reason = judge_name(host, port, policy) if literal is None else judge((literal,), port, policy, host).reason
    if reason:
        raise UrlRefused(NOT_ALLOWED, reason)


def _request_target(suffix: str) -> bytes:
    raw = suffix.encode("utf-8") if suffix.startswith("/") else b"/" + suffix.encode("utf-8")
    return _NOT_IN_REQUEST_LINE.sub(lambda match: b"%%%02X" % match[0][0], raw)
