"""The guard's policy from the settings: what callbacks may reach, and by which proxy (EG-11, EG-12)."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from app.settings.settings import Settings, SettingsRefused
from egress.client import Proxy
from egress.guard import GuardPolicy, networks

__all__ = ["egress_proxy", "guard_policy"]

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def guard_policy(settings: Settings, listen_port: int) -> GuardPolicy:
    """Loopback is allowed in development; our own listener, database and brokers never are."""
    development = settings.profile == "development"
    cidrs = settings.egress_allow_cidrs + (_LOOPBACK if development else ())
    try:
        allow_cidrs = networks(cidrs)
    except ValueError as error:
        raise SettingsRefused(f"HOOKWIRE_EGRESS_ALLOW_CIDRS: {error}") from None
    return GuardPolicy(
        allow_cidrs=allow_cidrs,
        allow_hosts=settings.egress_allow_hosts + (("localhost",) if development else ()),
        own_endpoints=frozenset(_own_endpoints(settings, listen_port)),
        allow_high_ports=True,
        allow_http=settings.egress_allow_http,
        allow_metadata=settings.egress_allow_metadata,
    )


def egress_proxy(settings: Settings) -> Proxy | None:
    """The proxy that the settings name, if any."""
    if settings.egress_proxy is None:
        return None
    parts = urlsplit(settings.egress_proxy.get_secret_value())
    assert parts.hostname is not None
    assert parts.port is not None, "the settings were checked"
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return Proxy(parts.hostname, parts.port, credentials, settings.egress_proxy_resolves)


def _own_endpoints(settings: Settings, listen_port: int) -> set[tuple[str, int]]:
    """Host and port of everything that is ours."""
    own = {(settings.listen_address[0], listen_port)}
    secret = (settings.database_url, settings.amqp_url, settings.egress_proxy)
    urls = [settings.public_url, *(one.get_secret_value() for one in secret if one)]
    defaults = {"https": 443, "http": 80, "amqp": 5672, "amqps": 5671}
    for url in filter(None, urls):
        parts = urlsplit(url)
        if parts.hostname:
            own.add((parts.hostname, parts.port or defaults.get(parts.scheme, 5432)))
    for server in filter(None, settings.kafka_bootstrap_servers.split(",")):
        host, _, port = server.strip().rpartition(":")
        own.add((host, int(port) if port.isdigit() else 9092))
    return own
