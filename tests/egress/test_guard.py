"""egress/guard.py: the pure verdict (EG-01, EG-03, EG-12, EG-14; hardening 5.2 and 5.3)."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ssrfguard import DEFAULT_DENIED

from egress.guard import GuardPolicy, Verdict, is_port_allowed, judge, judge_name, networks

STRICT = GuardPolicy()


def _allowed(text: str, policy: GuardPolicy = STRICT, port: int = 443, host: str = "hooks.example") -> bool:
    return judge([ip_address(text)], port, policy, host).allowed


# First and last address of every denied range of 5.2, and of what its IPv6 rule thereby denies.
DENIED = [
    "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255",
    "127.0.0.0", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0",
    "172.31.255.255", "192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255",
    "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255",
    "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.250", "239.255.255.255", "240.0.0.0",
    "255.255.255.255", "168.63.129.16",
    "::", "::1", "::7f00:1", "::ffff:ffff", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1", "100::",
    "100::ffff", "100:0:0:1::1", "1fff:ffff::", "2001::", "2001:0:1::1", "2001:2::1", "2001:10::1",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8:ffff::1", "2002::", "2002:7f00:1::",
    "2002:ffff::", "3fff::1", "3fff:fff::1", "4000::", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "febf::1", "fec0::1", "ff02::1", "ff0e::1", "ffff::", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "::ffff:168.63.129.16", "2606:4700::1111%eth0",
]  # fmt: skip

# Public services and neighbours of the denied ranges: 0 wrong denials (T10, EG-14).
PUBLIC = [
    "1.0.0.0", "1.1.1.1", "8.8.8.8", "8.8.4.4", "9.9.9.9", "9.255.255.255", "11.0.0.0", "13.107.42.14",
    "17.253.144.10", "20.112.52.29", "23.215.0.136", "31.13.72.36", "34.117.59.81", "52.84.0.1", "54.239.28.85",
    "64.233.160.1", "76.76.21.21", "93.184.216.34", "99.84.0.1", "100.63.255.255", "100.128.0.0", "104.16.132.229",
    "126.255.255.255", "128.0.0.0", "140.82.112.3", "142.250.64.78", "151.101.1.69", "162.159.200.1",
    "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
    "185.199.108.153", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255",
    "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0",
    "204.79.197.200", "208.67.222.222", "223.255.255.255",
    "2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::1", "2003::1", "2600:1f18::1",
    "2606:4700::1111", "2620:fe::fe", "2a00:1450:4001::1", "2a03:2880::1", "2c0f:fb50::1", "3ffe:ffff::1",
    "::ffff:8.8.8.8", "2400:cb00::1",
]  # fmt: skip


@pytest.mark.parametrize("text", DENIED)
def test_reserved_ranges_are_denied_from_first_to_last_address(text: str) -> None:
    """WH-G02."""
    assert judge([ip_address(text)], 443, STRICT).addresses == ()


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_not_denied(text: str) -> None:
    assert _allowed(text)


def test_there_are_fifty_public_addresses_and_more() -> None:
    """T10."""
    assert len(set(PUBLIC)) >= 50


PUBLIC_NAMES = [
    "example.com", "hooks.slack.com", "api.github.com", "discord.com", "webhook.site", "a.b.c.d.example.co.uk",
    "localhost.example.com", "internal.example.com", "local.example.com", "mylocal.example", "notlocalhost.com",
    "my-internal.net", "xn--bcher-kva.example", "10.example.com", "1e100.net", "0x.org", "metadata.example.com",
    "127.0.0.1.nip.io", "internal-tools.dev", "thelocal.se",
]  # fmt: skip


@pytest.mark.parametrize("host", PUBLIC_NAMES)
def test_public_names_are_not_denied(host: str) -> None:
    """EG-14."""
    assert judge_name(host, 443, STRICT) == ""


@pytest.mark.parametrize(
    "host", ["localhost", "a.localhost", "printer.local", "x.internal", "intranet", "metadata.google.internal"]
)
def test_local_names_are_denied(host: str) -> None:
    """EG-08."""
    assert judge_name(host, 443, STRICT)


@pytest.mark.parametrize("bad", ["10.0.0.1", "fe80::1", "::ffff:127.0.0.1", "169.254.169.254"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_one_bad_address_refuses_all(bad: str, position: int) -> None:
    """WH-G01, EG-01: wherever it stands among the answers."""
    addresses = [ip_address("93.184.216.34"), ip_address("2606:4700::1111")]
    addresses.insert(position, ip_address(bad))
    verdict = judge(addresses, 443, STRICT)
    assert (verdict.allowed, verdict.addresses) == (False, ())


def test_no_address_is_refused() -> None:
    assert judge([], 443, STRICT) == Verdict(allowed=False, reason="no address to judge")


def test_what_may_be_dialled_comes_back_in_order_and_decoded() -> None:
    """5.2: an IPv4-mapped address is judged and dialled as the IPv4 address that it is."""
    given_addresses = [ip_address("::ffff:93.184.216.34"), ip_address("2606:4700::1111")]
    assert judge(given_addresses, 443, STRICT) == Verdict(
        allowed=True, addresses=(IPv4Address("93.184.216.34"), IPv6Address("2606:4700::1111"))
    )


def test_a_refusal_tells_the_operator_which_setting_would_allow_it() -> None:
    """EG-03, EG-12."""
    assert judge([ip_address("10.1.2.3")], 443, STRICT).reason == (
        "10.1.2.3 is in 10.0.0.0/8; HOOKWIRE_EGRESS_ALLOW_CIDRS or HOOKWIRE_EGRESS_ALLOW_HOSTS would allow it"
    )


@pytest.mark.parametrize(
    ("policy", "text", "host", "allowed"),
    [
        (GuardPolicy(allow_cidrs=networks(["127.0.0.0/8", "::1/128"])), "127.0.0.1", "h.example", True),
        (GuardPolicy(allow_cidrs=networks(["127.0.0.0/8", "::1/128"])), "::1", "h.example", True),
        (GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"])), "::ffff:127.0.0.1", "h.example", True),
        (GuardPolicy(allow_cidrs=networks(["127.0.0.0/8"])), "10.0.0.1", "h.example", False),
        (GuardPolicy(allow_cidrs=networks(["10.0.0.0/8"])), "64:ff9b::a00:1", "h.example", False),
        (GuardPolicy(allow_hosts=("Build.Corp",)), "10.0.0.1", "build.corp", True),
        (GuardPolicy(allow_hosts=("build.corp",)), "10.0.0.1", "a.build.corp", False),
        (GuardPolicy(allow_hosts=("*.corp",)), "10.0.0.1", "a.b.corp", True),
        (GuardPolicy(allow_hosts=("*.corp",)), "10.0.0.1", "corp", False),
        (GuardPolicy(allow_hosts=("*.corp",)), "10.0.0.1", "evilcorp", False),
        (GuardPolicy(allow_hosts=("build.corp",)), "169.254.169.254", "build.corp", False),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0", "::/0"])), "169.254.169.254", "h.example", False),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0", "::/0"])), "168.63.129.16", "h.example", False),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0", "::/0"])), "fd00:ec2::254", "h.example", False),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0", "::/0"])), "64:ff9b::a9fe:a9fe", "h.example", False),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0", "::/0"])), "2002:a9fe:a9fe::1", "h.example", False),
        (GuardPolicy(allow_cidrs=networks(["0.0.0.0/0", "::/0"])), "::ffff:169.254.169.254", "h.example", False),
        (GuardPolicy(allow_metadata=True), "169.254.169.254", "h.example", False),
        (
            GuardPolicy(allow_metadata=True, allow_cidrs=networks(["169.254.169.254/32"])),
            "169.254.169.254",
            "h.example",
            True,
        ),
    ],
)
def test_the_allowlist_opens_exactly_what_it_names(policy: GuardPolicy, text: str, host: str, allowed: bool) -> None:
    """WH-G03, EG-12: metadata only by its own flag, and then only what is listed."""
    assert _allowed(text, policy, host=host) is allowed


@pytest.mark.parametrize(
    ("endpoint", "text", "port", "allowed"),
    [
        (("127.0.0.1", 8080), "127.0.0.1", 8080, False),
        (("127.0.0.1", 8080), "127.0.0.1", 8081, True),
        (("127.0.0.1", 8080), "::ffff:127.0.0.1", 8080, False),
        (("0.0.0.0", 8080), "127.0.0.2", 8080, False),
        (("::", 8080), "::1", 8080, False),
        (("::", 8080), "::1", 8081, True),
        (("93.184.216.34", 5432), "93.184.216.34", 5432, False),
        (("[2606:4700:0::1111]", 443), "2606:4700::1111", 443, False),
    ],
)
def test_our_own_endpoints_are_denied_even_where_allowed_or_public(
    endpoint: tuple[str, int], text: str, port: int, allowed: bool
) -> None:
    """5.2 "own", B-28."""
    policy = GuardPolicy(allow_cidrs=networks(["127.0.0.0/8", "::1/128"]), own_endpoints=frozenset({endpoint}))
    assert _allowed(text, policy, port) is allowed


@pytest.mark.parametrize(
    ("policy", "port", "allowed"),
    [
        (STRICT, 80, True), (STRICT, 443, True), (STRICT, 8443, True), (STRICT, 8080, False), (STRICT, 22, False),
        (GuardPolicy(allow_high_ports=True), 1024, True), (GuardPolicy(allow_high_ports=True), 65535, True),
        (GuardPolicy(allow_high_ports=True), 1023, False), (GuardPolicy(allow_high_ports=True), 5432, False),
        (GuardPolicy(allow_high_ports=True), 6379, False), (GuardPolicy(ports=frozenset({6379})), 6379, True),
        (GuardPolicy(ports=frozenset({6379})), 443, False), (GuardPolicy(allow_high_ports=True), 65536, False),
    ],
)  # fmt: skip
def test_a_port_is_allowed_by_the_policy_alone(policy: GuardPolicy, port: int, allowed: bool) -> None:
    """EG-07."""
    assert is_port_allowed(port, policy) is allowed


def test_a_network_with_host_bits_is_a_mistake() -> None:
    """SC-19: a typing error in the allowlist must not open something else."""
    with pytest.raises(ValueError, match="host bits"):
        networks(["10.0.0.1/8"])


# Where we are stricter than the oracle on purpose: it decodes translators and judges what is inside, we deny the
# carrier; it lets two anycast services, one cloud's wire server and IPv6 space that nobody was given through.
_STRICTER = networks(
    ["192.0.0.9/32", "192.0.0.10/32", "168.63.129.16/32", "64:ff9b::/96", "2002::/16", "2001::/23", "::/3", "4000::/2"]
)


def _agrees(address: IPv4Address | IPv6Address) -> bool:
    ours, theirs = judge([address], 443, STRICT).allowed, not DEFAULT_DENIED.classify(address).blocked
    return ours == theirs or (theirs and _may_be_stricter(address))


def _may_be_stricter(address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in _STRICTER)


@pytest.mark.parametrize("text", [text for text in (*DENIED, *PUBLIC) if "%" not in text])
def test_the_verdict_agrees_with_an_independent_guard(text: str) -> None:
    """WH-T01, OR-13: ssrfguard as the oracle."""
    assert _agrees(ip_address(text))


@given(st.ip_addresses(v=4))
def test_the_verdict_agrees_on_any_ipv4_address(address: IPv4Address) -> None:
    """OR-13."""
    assert _agrees(address)


@given(st.one_of(st.ip_addresses(v=6), st.integers(0x2000 << 112, (0x4000 << 112) - 1).map(IPv6Address)))
def test_the_verdict_is_never_laxer_on_any_ipv6_address(address: IPv6Address) -> None:
    """OR-13; outside 2000::/3 we deny what nobody has been given."""
    ours, theirs = judge([address], 443, STRICT).allowed, not DEFAULT_DENIED.classify(address).blocked
    assert theirs or not ours
