"""Hostile URLs: every one must be refused before a socket exists, on every outbound path.

`answers` is what a lookup would say, the way platforms read odd spellings of addresses too: a form that slipped through
the URL check still meets the guard.
"""

from collections.abc import Iterator

METADATA = "169.254.169.254"

_IPV4_SPELLINGS = {
    "127.0.0.1": [
        "127.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "0177.1", "0x7f.0.0.1", "0x7f.1", "0x7f000001", "2130706433",
        "017700000001", "0177.0x0.0.1", "127.0.0.01", "127.00.0.1", "00127.0.0.1", "127.0.0.0x1", "127.255.255.254",
        "0", "0.0.0.0", "0x0", "00", "1.2.3", "127.0.0.1.", "①②⑦.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1",
        "127．0．0．1", "127｡0｡0｡1", "１２７.0.0.1", "１２７．０．０．１", "0ｘ7f.1", "𝟏𝟐𝟕.0.0.1",
    ],
    METADATA: [
        "169.254.169.254", "169.254.43518", "169.16689662", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376", "025177524776", "169.254.169.254.", "①⑥⑨.②⑤④.①⑥⑨.②⑤④", "169。254。169。254",
        "0xA9FEA9FE", "0251.254.169.254",
    ],
}  # fmt: skip

_IPV4_RANGES = [
    "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "168.63.129.16", "169.254.1.1",
    "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1", "255.255.255.255",
]  # fmt: skip

_IPV6 = [
    "::", "::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0001", "::127.0.0.1", "::7f00:1",
    "::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:127.0.0.1", "::FFFF:169.254.169.254", "::ffff:a9fe:a9fe",
    "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::1", "2001:2::1",
    "2001:10::1", "2001:db8::1", "3fff::1", "100::1", "100:0:0:1::1", "5f00::1", "fc00::1", "fd00:ec2::254",
    "fd12:3456:789a::1", "fe80::1", "fe80::1%1", "fe80::1%25eth0", "fe80::1%25lo", "::1%25lo", "fec0::1", "ff02::1",
    "ff05::2", "4000::1", "::ffff:10.0.0.1", "::ffff:100.64.0.1", "::ffff:0.0.0.0", "[::1", "::1]", "::1.", "1::2::3",
    "12345::1", "::ffff:127.0.0.1.", "::ffff:127.1", "::ffff:0177.0.0.1",
]  # fmt: skip

_NAMES = [
    "localhost", "LOCALHOST", "LocalHost", "localhost.", "localhost..", "a.localhost", "a.b.localhost.",
    "ⓛocalhost", "ｌｏｃａｌｈｏｓｔ", "localhoſt", "printer.local", "db.internal", "metadata.google.internal",
    "METADATA.google.internal.", "metadata.goog", "instance-data", "intranet", "db", "kubernetes", "xn--", "a.xn--",
    "xn--.com", "xn--a.com", "xn--\u0661.com", "a..com", ".com", "", ".", "a_.", "-a.com", "a-.com", "exa mple.com",
    "exa%6dple.com", "%31%32%37.0.0.1", "127.0.0.1%00.example.com", "127.0.0.1%2f.example.com", "a%00b.com",
    "ex\u200bample.\u200dcom", "exa\u2028mple.com", "a" * 64 + ".com", ".".join(["a" * 60] * 5), "good.com\\",
    "example。com／", "example.com＃", "example.com＠evil.com", "℀.com", "example.com:80:80", "xn--ls8h=.la",
    "example.com,10.0.0.1", "example.com;10.0.0.1", "<script>.com", "$(id).com", "{}.com", "a|b.com", "a^b.com",
]  # fmt: skip

_AUTHORITIES = [
    "good.example@127.0.0.1", "good.example:80@127.0.0.1", "127.0.0.1@good.example", "user:pass@good.example",
    "@good.example", ":@good.example", "a@b@127.0.0.1", "good.example%40127.0.0.1", "127.0.0.1%2f@good.example",
    "127.0.0.1\\@good.example", "good.example\\@127.0.0.1", "good.example\\.127.0.0.1", "127.0.0.1\\good.example",
    "good.example#@127.0.0.1", "good.example:80#@127.0.0.1", "127.0.0.1#good.example", "good.example&@127.0.0.1",
    "good.example:0", "good.example:99999", "good.example:65536", "good.example:", "good.example:80:81",
    "good.example:-1", "good.example:+80", "good.example:8 0", "good.example:080", "good.example:0x50",
    "good.example:８０", "good.example:22", "good.example:25", "good.example:2375", "good.example:3306",
    "good.example:5432", "good.example:5672", "good.example:6379", "good.example:9092", "good.example:9200",
    "good.example:11211", "good.example:27017", "good.example:21", "good.example:1023", "[::1]:80x", "[::1]80",
    "[127.0.0.1]", "[good.example]", "[::1]@good.example", "[v1.fe80]",
]  # fmt: skip

_WHOLE = [
    "", " ", "http:", "http:/", "http://", "http:///", "http:///path", "http:127.0.0.1", "http:/127.0.0.1/",
    "//127.0.0.1/", "127.0.0.1", "good.example/path", "/path", "?x", "http//good.example", "://good.example",
    "gopher://127.0.0.1:6379/_INFO", "file:///etc/passwd", "ftp://good.example/", "ws://good.example/",
    "wss://good.example/", "data:text/plain,x", "javascript:alert(1)", "dict://127.0.0.1:11211/stat",
    "ldap://127.0.0.1/", "jar:http://good.example!/", "http+unix://%2Fvar%2Frun%2Fdocker.sock/", "unix:/tmp/s",
    "httpx://good.example/", "http2://good.example/", "HTTPS//good.example", "h\tttp://good.example/",
    " http://good.example/", "\thttp://good.example/", "\nhttp://good.example/", "http://good.example/\n",
    "http://good.example/\r\nX-Evil: 1", "http://good.example/a\tb", "http://good.example/\x00", "http://\t127.0.0.1/",
    "http://127.0.0.1\t/", "http://127.0.0.1\n.good.example/", "http://good.example\x00.evil/", "http:// 127.0.0.1/",
    "http://good.example /", "http://good.example\r/", "http://good.example/\x7f", "http:\\\\127.0.0.1\\",
    "http:/\\127.0.0.1/", "http://\\127.0.0.1/", "\ufeffhttp://good.example/", "http://good.example/#fragment",
    "http://good.example/#", "http://good.example#", "http://good.example/" + "a" * 2048, "http://good.example/\ud800",
    "http://\ud800.example/", "http：//good.example/", "http:／／127.0.0.1/", "ｈttp://127.0.0.1/",
]  # fmt: skip


def hostile_urls() -> Iterator[str]:
    """Give all forms, most of them under both schemes."""
    for scheme in ("http", "https"):
        for spellings in _IPV4_SPELLINGS.values():
            yield from (f"{scheme}://{host}/" for host in spellings)
        yield from (f"{scheme}://{host}/" for host in (*_IPV4_RANGES, *_NAMES))
        yield from (f"{scheme}://[{host}]/" for host in _IPV6)
        yield from (f"{scheme}://{authority}/" for authority in _AUTHORITIES)
    yield from _WHOLE
    yield from (f"http://{host}/" for host in REBOUND)


REBOUND = {
    "cname-to-internal.example": ["10.0.0.5"],
    "a-public-aaaa-private.example": ["93.184.216.34", "fd00::1"],
    "first-good-second-bad.example": ["93.184.216.34", "127.0.0.1"],
    "hundred.example": [*[f"93.184.216.{n}" for n in range(63)], "10.0.0.1", *["93.184.216.99"] * 36],
    "mapped.example": ["::ffff:10.0.0.1"],
    "nat64.example": ["64:ff9b::a00:1"],
    "metadata.example": [METADATA],
    "0.example": ["0.0.0.0"],
    "linklocal.example": ["fe80::1"],
    "zone.example": ["fe80::1%eth0"],
    "127.0.0.1.example": ["127.0.0.1"],
    "multicast.example": ["224.0.0.1"],
    "site.example": ["fec0::1"],
}
"""Ordinary names whose answers are hostile."""


def answers(host: str) -> list[str]:
    """Answer as a platform's resolver might: odd spellings of addresses become addresses, names what they hide."""
    if host in REBOUND:
        return REBOUND[host]
    return [METADATA]
