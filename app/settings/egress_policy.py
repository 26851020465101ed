"""The guard's policy from the settings: allowed targets of callbacks, and the proxy (EG-11, EG-12)."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from app.settings.settings import Settings, SettingsRefused
from db.address import PORT, addresses
from egress.client import Proxy
from egress.guard import Endpoint, GuardPolicy, networks

__all__ = ["egress_proxy", "guard_policy"]

_PORTS = {"https": 443, "http": 80, "amqp": 5672, "amqps": 5671, "mysql": 3306, "mariadb": 3306}
_LOOPBACK = ("127.0.0.0/8", "::1/128")


def guard_policy(settings: Settings, listen_port: int, metrics_port: int | None = None) -> GuardPolicy:
    """Build the policy. Loopback is allowed in development; our own listeners, database and brokers never are. The
    ports are the real ones of the listeners; ``metrics_port`` None: as it is set.
    """
    development = settings.profile == "development"
    cidrs = settings.egress_allow_cidrs + (_LOOPBACK if development else ())
    try:
        allow_cidrs = networks(cidrs)
    except ValueError as error:
        raise SettingsRefused(f"HOOKWIRE_EGRESS_ALLOW_CIDRS: {error}") from None
    own = frozenset(_own_servers(settings, listen_port, metrics_port))
    return GuardPolicy(
        allow_cidrs=allow_cidrs,
        allow_hosts=settings.egress_allow_hosts + (("localhost",) if development else ()),
        own_endpoints=own | _endpoints([settings.public_url]),
        own_servers=own,
        allow_high_ports=True,
        allow_http=settings.egress_allow_http,
        allow_metadata=settings.egress_allow_metadata,
    )


def egress_proxy(settings: Settings) -> Proxy | None:
    """Return the proxy that the settings name, if any."""
    if settings.egress_proxy is None:
        return None
    parts = urlsplit(settings.egress_proxy.get_secret_value())
    assert parts.hostname is not None
    assert parts.port is not None, "the settings have checked the proxy's URL"
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return Proxy(parts.hostname, parts.port, credentials, settings.egress_proxy_resolves)


def _own_servers(settings: Settings, listen_port: int, metrics_port: int | None) -> set[Endpoint]:
    """Return host and port of our own servers that no other service shares."""
    own = {(settings.listen_address[0], listen_port)}
    if settings.metrics_address is not None:
        host, port = settings.metrics_address
        own.add((host, metrics_port or port))
    if settings.database_url is not None:
        named = addresses(settings.database_url.get_secret_value())
        own |= {(one.host, one.port or PORT) for one in named if not one.host.startswith("/")}
    secret = (
        settings.amqp_url,
        settings.amqp_source_url,
        settings.egress_proxy,
        settings.outbox_url,
    )
    own |= _endpoints([one.get_secret_value() for one in secret if one])
    for server in filter(None, settings.kafka_bootstrap_servers.split(",")):
        host, _, text = server.strip().rpartition(":")
        own.add((host, int(text) if text.isdigit() else 9092))
    return own


def _endpoints(urls: Iterable[str]) -> frozenset[Endpoint]:
    """Return host and port of each URL that names a host."""
    found = (urlsplit(url) for url in urls)
    return frozenset((one.hostname, one.port or _PORTS.get(one.scheme, 5432)) for one in found if one.hostname)
