"""Outbound: the guarded client for every URL that a stranger named, as the settings want it."""

from __future__ import annotations

from app.settings.egress_policy import egress_proxy
from app.settings.settings import Settings
from egress.client import Client, ClientOptions
from egress.guard import GuardPolicy
from egress.resolver import ThreadResolver

__all__ = ["guarded_client", "user_agent"]


def user_agent(public_url: str, incarnation: str) -> str:
    """Return the product's name, with the address and the name of this installation."""
    return f"hookwire/0.2 (+{public_url}; {incarnation})"


def guarded_client(settings: Settings, policy: GuardPolicy, agent: str) -> Client:
    """Return the client. ``agent`` is its User-Agent."""
    options = ClientOptions(
        user_agent=agent,
        idle_per_origin_max=settings.delivery_slots_per_host,
        ca_file=str(settings.egress_tls_ca) if settings.egress_tls_ca else None,
        proxy=egress_proxy(settings),
    )
    return Client(policy, ThreadResolver(), options)
