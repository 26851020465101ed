"""Checks of settings and environment: addresses, proxies, keys, and options that production must not have."""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from app.checks.check import Check, stricter_in_production
from app.settings.settings import Settings
from db.address import addresses
from egress.connector import tls_context
from egress.guard import DENIED_IPV4, METADATA, Network, networks

__all__ = ["settings_checks"]


def settings_checks(settings: Settings, environment: Mapping[str, str]) -> list[Check]:
    """Return the checks that need no connection. Unknown settings were refused when the settings were loaded."""
    return [
        Check("SC-23", "settings", "ok", "all known"),
        *_listen(settings),
        *_metrics_listen(settings),
        *_proxies(settings, environment),
        *_keys(settings),
        *_egress(settings),
        *_public_face(settings),
        *_transport(settings),
        *_switches(settings),
    ]


def _listen(settings: Settings) -> Iterator[Check]:
    """Check the listen address, and the use of the development profile."""
    if _is_loopback(settings.listen_address[0]):
        yield Check("SC-17", "listen", "ok", f"{settings.listen}, reachable from this machine only")
    elif settings.profile == "development":
        yield _open_in_development("listen", settings.listen)
    elif settings.trusted_proxies:
        yield Check("SC-17", "listen", "ok", f"{settings.listen}, behind {', '.join(settings.trusted_proxies)}")
    else:
        cure = "put a proxy that ends TLS before it and name it in HOOKWIRE_TRUSTED_PROXIES"
        yield Check("SC-17", "listen", "warn", f"{settings.listen} is open to others without TLS", cure)


def _metrics_listen(settings: Settings) -> Iterator[Check]:
    """Check the address of the port without a key."""
    address = settings.metrics_address
    if address is None or _is_loopback(address[0]):
        yield Check("SC-17", "metrics", "ok", settings.metrics_listen or "no port of their own")
    elif settings.profile == "development":
        yield _open_in_development("metrics", settings.metrics_listen)
    else:
        detail = f"{settings.metrics_listen} shows others how much is published and the state of relays"
        yield Check("SC-17", "metrics", "note", detail, "let only your monitoring reach it")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _open_in_development(subject: str, listen: str) -> Check:
    cure = "set HOOKWIRE_PROFILE=production, or listen on 127.0.0.1"
    return Check("SC-17", subject, "refuse", f"{listen} is open to others in the development profile", cure)


def _proxies(settings: Settings, environment: Mapping[str, str]) -> Iterator[Check]:
    """Check the trusted proxies: a client that may forge X-Forwarded-For can claim any address."""
    level = stricter_in_production(settings)
    findings = []
    if "FORWARDED_ALLOW_IPS" in environment:
        cure = "unset it; only HOOKWIRE_TRUSTED_PROXIES counts"
        findings.append(Check("SC-16", "proxies", level, "FORWARDED_ALLOW_IPS is set, and has no effect here", cure))
    for text in settings.trusted_proxies:
        try:
            everything = ipaddress.ip_network(text, strict=False).prefixlen == 0
        except ValueError:
            cure = "HOOKWIRE_TRUSTED_PROXIES lists addresses and networks, such as 10.0.0.0/24"
            findings.append(Check("SC-16", "proxies", "refuse", f"{text} is neither an address nor a network", cure))
            continue
        if everything:
            findings.append(
                Check("SC-16", "proxies", level, f"{text} trusts every client", "name the proxies themselves")
            )
    if settings.egress_proxy_resolves and settings.egress_proxy is None:
        cure = "set HOOKWIRE_EGRESS_PROXY, or unset HOOKWIRE_EGRESS_PROXY_RESOLVES"
        findings.append(
            Check("SC-19", "egress", "warn", "HOOKWIRE_EGRESS_PROXY is not set, so no proxy can resolve names", cure)
        )
    elif settings.egress_proxy_resolves:
        detail = "the egress proxy resolves names, so it has to refuse forbidden targets of callbacks"
        findings.append(Check("SC-19", "egress", "note", detail))
    yield from findings or [Check("SC-16", "proxies", "ok", ", ".join(settings.trusted_proxies) or "none trusted")]


def _keys(settings: Settings) -> Iterator[Check]:
    """Check the secret keys. Opening them has checked their length and randomness."""
    if settings.secret_keys is not None:
        yield Check("SC-18", "secret keys", "ok", "HOOKWIRE_SECRET_KEYS is set")
        return
    path = settings.key_file
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        yield Check("SC-18", "secret keys", "note", f"{path} will be made at the first start")
        return
    except OSError as error:
        yield Check("SC-18", "secret keys", "refuse", f"{path}: {error.strerror}", "let this account read it")
        return
    if mode & 0o077:
        detail = f"{path} has mode {mode:04o}: others can read it"
        yield Check("SC-18", "secret keys", "refuse", detail, f"run: chmod 600 {path}")
    elif settings.profile == "production" and settings.database_url is not None:
        cure = "set HOOKWIRE_SECRET_KEYS before a second machine joins"
        yield Check("SC-18", "secret keys", "warn", f"only this machine has {path}", cure)
    else:
        yield Check("SC-18", "secret keys", "ok", f"{path}, mode {mode:04o}")


def _egress(settings: Settings) -> Iterator[Check]:
    """Check the allowed targets of callbacks. The policy itself refuses ranges that are no networks."""
    level = stricter_in_production(settings)
    findings = list(_egress_ca(settings.egress_tls_ca))
    if settings.egress_allow_metadata:
        cure = "unset HOOKWIRE_EGRESS_ALLOW_METADATA"
        findings.append(Check("SC-19", "egress", level, "callbacks may reach cloud metadata addresses", cure))
    try:
        allowed = networks(settings.egress_allow_cidrs)
    except ValueError as error:
        cure = "HOOKWIRE_EGRESS_ALLOW_CIDRS lists networks, such as 10.1.0.0/16"
        yield Check("SC-19", "egress", "refuse", str(error), cure)
        return
    for network in allowed:
        if any(address in network for address in METADATA) and network.num_addresses > 1:
            cure = "allow smaller networks"
            findings.append(Check("SC-19", "egress", "warn", f"{network} holds a cloud metadata address", cure))
        elif settings.profile == "production" and _is_private(network):
            findings.append(Check("SC-19", "egress", "note", f"callbacks may reach the private network {network}"))
    yield from findings or [Check("SC-19", "egress", "ok", "public addresses, and those that the settings name")]


def _egress_ca(path: Path | None) -> Iterator[Check]:
    """Check the authorities' file: without it every delivery would fail."""
    if path is None:
        return
    try:
        tls_context(str(path))
    except OSError as error:  # ssl.SSLError is one
        cure = "HOOKWIRE_EGRESS_TLS_CA names a PEM file of certificates that this account may read"
        yield Check("OB-07", "egress authorities", "refuse", f"{path}: {error.strerror or error}", cure)


def _is_private(network: Network) -> bool:
    if network.version == 4:
        return any(network.overlaps(denied) for denied in DENIED_IPV4)
    return not network.is_global


def _public_face(settings: Settings) -> Iterator[Check]:
    """Check public access: its default is for publishers with public topics, and has to be chosen."""
    if settings.profile != "production" or not settings.needs_keys or settings.hub_access == "keys":
        return
    detail = "anyone may read each topic's latest content and subscribe by POST /hub"
    if "hub_access" in settings.model_fields_set:
        yield Check("FS-18", "hub access", "note", detail)
    else:
        cure = "set HOOKWIRE_HUB_ACCESS=keys, or =open if all that is published here is public"
        yield Check("FS-18", "hub access", "warn", detail, cure)


def _transport(settings: Settings) -> Iterator[Check]:
    """Check TLS to the database: by default the driver goes on without it."""
    if settings.database_url is None:
        return
    url = settings.database_url.get_secret_value()
    mode = parse_qs(urlsplit(url).query).get("sslmode", ["prefer"])[-1]
    hosts = [one.host for one in addresses(url)]
    remote = [host for host in hosts if not host.startswith("/") and not _is_loopback(host)]
    if not remote or mode in ("require", "verify-ca", "verify-full"):
        return
    where = ", ".join(remote)
    detail = f"sslmode={mode}: the password and all events may cross the network to {where} in clear text"
    cure = "append ?sslmode=verify-full to HOOKWIRE_DATABASE_URL, unless the network is your own"
    yield Check("FS-19", "database transport", "note", detail, cure)


def _switches(settings: Settings) -> Iterator[Check]:
    """Find switches for a developer's machine. Loading the settings refuses fail points in production."""
    if settings.failpoints:
        yield Check("SC-19", "fail points", "warn", "faults are being injected", "unset HOOKWIRE_FAILPOINTS")
    if settings.profile == "production" and settings.docs:
        yield Check("SC-19", "docs", "note", "/docs is served, because HOOKWIRE_DOCS says so")
    yield Check("SC-19", "profile", "ok", settings.profile)
