"""Rules for web pages that call this hub, and for the host names under which it answers.

A browser sends a page's request with the user's address, network and login. So a page of any site could publish,
subscribe and purge on a hub without keys. The browser also names the origin of a request::

    Host          without keys: the public URL's, a listen address, loopback, or of HOOKWIRE_HOSTS; else 421.
                  A page whose name was pointed at this hub (DNS rebinding) would otherwise be of the hub's own origin.
    Sec-Fetch-Site, Origin
                  GET, HEAD and OPTIONS change nothing and pass. Anything else from a page of another site is 403,
                  unless it publishes and its origin is of HOOKWIRE_ORIGINS.

Programs send neither Origin nor Sec-Fetch-Site and are not concerned.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.settings.settings import Settings
from app.web.problem import Problem
from app.web.publishing.envelope import is_publish

__all__ = ["PagePolicy", "PublishingPages", "operations_policy", "page_policy"]

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN_SITES: Final = frozenset({b"cross-site", b"same-site"})
_PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths that answer under any host name, for load balancers. Their answers hold no data."""
_EXPOSED: Final = ("Hookwire-Notice", "Idempotency-Replayed", "Location", "Retry-After", "X-Request-Id")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class PagePolicy:
    """The allowed origins and host names. ``own_origin`` is the public URL's; ``origins`` may publish. ``hosts``: names
    without port; None takes any.

    ``any_address``: the hub listens on every address, so each IP address is a name of it. A page cannot choose one.
    """

    own_origin: str = ""
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] | None = None
    any_address: bool = False

    def judge(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise ``Problem``: unknown-host, foreign-page."""
        if self.hosts is not None and scope["path"] not in _PROBES:
            self._judge_host(headers.get(b"host", b""))
        if scope["method"] not in _SAFE_METHODS and (b"origin" in headers or b"sec-fetch-site" in headers):
            self._judge_page(scope, headers)

    def _judge_host(self, host: bytes) -> None:
        name = _name(host)
        if name in (self.hosts or ()) or (_is_address(name) and (self.any_address or _is_loopback(name))):
            return
        detail = f"This hub does not answer to the host {name!r}; an operator names it in HOOKWIRE_HOSTS."
        raise Problem("unknown-host", detail, setting="HOOKWIRE_HOSTS")

    def _judge_page(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin in self.origins and is_publish(scope):
            return
        if headers.get(b"sec-fetch-site") not in _FOREIGN_SITES and (
            not origin or origin == self.own_origin or _is_of(origin, headers.get(b"host", b""))
        ):
            return
        page = f"A page of {origin}" if origin else "A page of another site"
        detail = f"{page} sent this request; such a page may change nothing here."
        raise Problem("foreign-page", detail, setting="HOOKWIRE_ORIGINS")


class PublishingPages:
    """The ASGI layer that lets scripts of ``origins`` publish: preflights, and answers they can read."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._cors = CORSMiddleware(
            app, allow_origins=origins, allow_methods=("POST",), allow_headers=("*",), expose_headers=_EXPOSED
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; pages may only read answers to publishing."""
        publishes = scope["type"] == "http" and is_publish(scope)
        await (self._cors if publishes else self._app)(scope, receive, send)


def page_policy(settings: Settings, public_url: str) -> PagePolicy:
    """Return the policy of these settings. With keys any host name is allowed: a rebound page has no key."""
    public = urlsplit(public_url)
    policy = PagePolicy(
        own_origin=_origin(public.scheme, public.hostname or "", public.port), origins=frozenset(settings.origins)
    )
    return policy if settings.needs_keys else _named(policy, settings, public_url, settings.listen_address[0])


def operations_policy(settings: Settings, public_url: str) -> PagePolicy:
    """Return the policy of the port for metrics, which needs no key: only known host names are answered."""
    assert settings.metrics_address is not None, "only a process with that port has this policy"
    return _named(PagePolicy(), settings, public_url, settings.metrics_address[0])


def _named(policy: PagePolicy, settings: Settings, public_url: str, listen: str) -> PagePolicy:
    """Return the policy with the host names under which a listener on ``listen`` answers."""
    hosts = {"localhost", urlsplit(public_url).hostname or "", listen.lower(), *settings.hosts}
    any_address = _is_address(listen) and ipaddress.ip_address(listen).is_unspecified
    return replace(policy, hosts=frozenset(hosts - {""}), any_address=any_address)


def _origin(scheme: str, host: str, port: int | None) -> str:
    """Return the origin as a browser writes it: without the scheme's default port."""
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" + ("" if port in (None, _DEFAULT_PORTS.get(scheme)) else f":{port}")


def _is_of(origin: str, host: bytes) -> bool:
    """Return whether this origin's host and port are those of a Host field."""
    scheme, _, authority = origin.partition("://")
    default = f":{_DEFAULT_PORTS.get(scheme, 0)}"
    return authority.lower().removesuffix(default) == host.decode("latin-1").lower().removesuffix(default)


@lru_cache(maxsize=256)
def _name(host: bytes) -> str:
    """Return the name in a Host field, without port, brackets and the dot at its end."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


@lru_cache(maxsize=256)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return ipaddress.ip_address(name).is_loopback
