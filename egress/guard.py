"""The egress guard's verdict: may this connection be dialled?

The guard does no input or output. The caller resolves a name **once**, passes **every** address to `judge` and dials
only the addresses that it returns (EG-01). One bad address refuses them all, because the DNS server chooses the order.

    URL --url.parse_target--> Target --resolver--> addresses --judge--> refuse  -> Blocked, no socket exists
                                                                  '---> allow   -> dial exactly these

Order of the rules for one address. An endpoint of this hub (a loop, or its database) is always refused. A cloud
metadata address is refused unless its own flag is set. Then networks and hosts that the operator allowed pass. Then the
reserved ranges refuse. `ipaddress.is_global` is not used: it lets NAT64, 6to4, multicast and others through.

Ranges: IANA special-purpose registries for IPv4 and IPv6, and the metadata addresses of the large clouds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Endpoint = tuple[str, int]
"""Host name, address or wildcard address; port."""

ALLOW_CIDRS_SETTING = "HOOKWIRE_EGRESS_ALLOW_CIDRS"
ALLOW_HOSTS_SETTING = "HOOKWIRE_EGRESS_ALLOW_HOSTS"
ALLOW_METADATA_SETTING = "HOOKWIRE_EGRESS_ALLOW_METADATA"

DENIED_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # a public address, but one large cloud uses it for the virtual host's own server
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)

GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The part of IPv6 that is assigned for the Internet. Every address outside it is refused."""

DENIED_IPV6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""The parts of `GLOBAL_IPV6` that are tunnels, documentation or benchmarks."""

METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
"""Addresses that return the machine's own credentials in some cloud."""

METADATA_HOSTS = frozenset({"metadata.google.internal", "metadata.goog", "instance-data"})

DENIED_NAMES = ("localhost", "local", "internal")
"""Names refused as such and as a suffix (EG-08); a name without a dot is refused too."""

WEB_PORTS = frozenset({80, 443, 8443})
DENIED_PORTS = frozenset({22, 25, 2375, 3306, 5432, 5672, 6379, 9092, 9200, 11211, 27017})
"""Ports of servers that can be tricked into acting on an HTTP request; refused even where high ports are allowed."""

_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_TEREDO = IPv6Network("2001::/32")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_COMPATIBLE = IPv6Network("::/96")
_WILDCARDS = (ip_address("0.0.0.0"), ip_address("::"))  # noqa: S104 - compared with, never bound


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """The operator's rules for outbound targets; every default is the strict one.

    Attributes:
        allow_cidrs: networks that pass although they are reserved (EG-12).
        allow_hosts: host names that pass, exact or `*.suffix`, for any address that they resolve to, except metadata.
        own_endpoints: (host name or address, port) of this hub's listeners, database, brokers and public URL. A
            wildcard address stands for this machine's loopback on that port.
        own_servers: own endpoints that no other service shares: their address and port always mean this hub (FS-09).
            The public URL is not among them: the proxy behind its address may serve others too.
        ports: ports that pass by number.
        allow_high_ports: ports from 1024 up pass too, except `DENIED_PORTS`.
        allow_http: plain http passes; else https only (EG-07).
        allow_metadata: lifts the ban on metadata addresses; they must still be in `allow_cidrs` or `allow_hosts`.
    """

    allow_cidrs: tuple[Network, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    own_endpoints: frozenset[Endpoint] = frozenset()
    own_servers: frozenset[Endpoint] = frozenset()
    ports: frozenset[int] = WEB_PORTS
    allow_high_ports: bool = False
    allow_http: bool = True
    allow_metadata: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow_hosts", tuple(host.lower().rstrip(".") for host in self.allow_hosts))
        object.__setattr__(self, "own_endpoints", frozenset((_canonical(h), port) for h, port in self.own_endpoints))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The guard's answer.

    Attributes:
        allowed: whether the target may be dialled.
        addresses: the addresses to dial, in the given order, IPv4-mapped ones as IPv4; empty when refused.
        reason: the cause of a refusal, for operators only: it names the address and the setting that would allow it.
    """

    allowed: bool
    addresses: tuple[Address, ...] = ()
    reason: str = ""


def is_wildcard(host: str) -> bool:
    """Return whether a listener on this host listens on every address."""
    return host in map(str, _WILDCARDS)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse CIDR texts; raise ValueError for a text that is no network, or with host bits set."""
    return tuple(ip_network(text.strip()) for text in texts)


def judge(addresses: Sequence[Address], port: int, policy: GuardPolicy, host: str = "") -> Verdict:
    """Judge every address that a target resolved to (EG-01, EG-03).

    Args:
        addresses: all answers of one lookup, or the one literal of the URL.
        port: the port that would be dialled.
        policy: the operator's decisions.
        host: the URL's host in lower-case ASCII, for `allow_hosts`.
    """
    plain = tuple(_unmapped(address) for address in addresses)
    if not plain:
        return Verdict(allowed=False, reason="no address to judge")
    host_allowed = is_listed(host, policy.allow_hosts)
    for address in plain:
        reason = _objection(address, port, policy, host_allowed=host_allowed)
        if reason:
            return Verdict(allowed=False, reason=reason)
    return Verdict(allowed=True, addresses=plain)


def judge_name(host: str, port: int, policy: GuardPolicy) -> str:
    """Return why a host *name* is refused before any lookup (EG-08), or an empty text."""
    if (host, port) in policy.own_endpoints:
        return f"{host}:{port} is an endpoint of this hub"
    if host in METADATA_HOSTS and not policy.allow_metadata:
        return f"{host} is a cloud metadata name; only {ALLOW_METADATA_SETTING} lifts that"
    if is_listed(host, policy.allow_hosts):
        return ""
    if "." not in host:
        return f"{host} has a single label; {ALLOW_HOSTS_SETTING} would allow it"
    if any(host == name or host.endswith("." + name) for name in DENIED_NAMES):
        return f"{host} is a local name; {ALLOW_HOSTS_SETTING} would allow it"
    return ""


def is_port_allowed(port: int, policy: GuardPolicy) -> bool:
    """Return whether a port may be dialled (EG-07). A port that the operator listed passes even if it is on the deny
    list.
    """
    if port in policy.ports:
        return True
    return policy.allow_high_ports and 1024 <= port <= 65535 and port not in DENIED_PORTS


def is_listed(host: str, patterns: Sequence[str]) -> bool:
    """Match a lower-case host against exact names and `*.suffix` patterns."""
    return any(host == p or (p.startswith("*.") and host.endswith(p[1:])) for p in patterns)


def _objection(address: Address, port: int, policy: GuardPolicy, *, host_allowed: bool) -> str:
    if _is_own(address, port, policy):
        return f"{address} port {port} is an endpoint of this hub"
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return f"{address} carries a zone"
    if not policy.allow_metadata and not METADATA.isdisjoint((address, *_carried(address))):
        return f"{address} is a cloud metadata address; only {ALLOW_METADATA_SETTING} lifts that"
    if host_allowed or any(address in network for network in policy.allow_cidrs):
        return ""
    network = _denied_network(address)
    if network is None:
        return ""
    return f"{address} is in {network}; {ALLOW_CIDRS_SETTING} or {ALLOW_HOSTS_SETTING} would allow it"


def _denied_network(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((str(network) for network in DENIED_IPV4 if address in network), None)
    if address not in GLOBAL_IPV6:
        return f"none of {GLOBAL_IPV6}"
    return next((str(network) for network in DENIED_IPV6 if address in network), None)


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _carried(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address would reach through a translator or tunnel."""
    if isinstance(address, IPv4Address):
        return ()
    if address in _COMPATIBLE or any(address in network for network in _NAT64):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address in _TEREDO:  # the server, and the client with all its bits inverted
        return (IPv4Address(int(address) >> 64 & 0xFFFFFFFF), IPv4Address(~int(address) & 0xFFFFFFFF))
    if address in _SIX_TO_FOUR:
        return (IPv4Address(int(address) >> 80 & 0xFFFFFFFF),)
    return ()


def _is_own(address: Address, port: int, policy: GuardPolicy) -> bool:
    """Compare host and port as written. `egress.own_endpoints` checks addresses before the connection."""
    if (str(address), port) in policy.own_endpoints:
        return True
    everywhere = any((str(wildcard), port) in policy.own_endpoints for wildcard in _WILDCARDS)
    return everywhere and (address.is_loopback or address.is_unspecified)


def _canonical(host: str) -> str:
    text = host.strip("[]").lower().rstrip(".")
    try:
        return str(_unmapped(ip_address(text)))
    except ValueError:
        return text
