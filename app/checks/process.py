"""Checks of this process: it can open enough descriptors, and it refuses forbidden callbacks."""

from __future__ import annotations

import resource

from app.checks.check import Check
from app.settings.egress_policy import guard_policy
from app.settings.settings import Settings
from egress.client import Client, Outbound, self_test
from egress.connector import Dialer
from egress.resolver import Resolver

__all__ = ["descriptor_check", "guard_check"]

_OTHER_DESCRIPTORS = 100


def descriptor_check(settings: Settings) -> Check:
    """Check the limit of descriptors: twice the need of deliveries and the database, and some for clients (SC-22)."""
    needed = 2 * settings.delivery_slots + settings.database_connections_max + _OTHER_DESCRIPTORS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        cure = f"raise it (ulimit -n {needed}), or lower HOOKWIRE_DELIVERY_SLOTS"
        return Check("SC-22", "descriptors", "warn", f"{soft} may be open, {needed} may be needed", cure)
    return Check("SC-22", "descriptors", "ok", f"{soft} may be open, {needed} may be needed")


async def guard_check(settings: Settings, listen_port: int) -> Check:
    """Check that the service's client refuses metadata addresses before a socket exists (SC-14)."""
    policy = guard_policy(settings, listen_port)
    if policy.allow_metadata:
        return Check("SC-14", "egress guard", "note", "not tested, because metadata addresses are allowed")

    def client(resolver: Resolver, dialer: Dialer) -> Outbound:
        return Client(policy, resolver, dialer=dialer)

    if findings := await self_test(client):
        return Check("SC-14", "egress guard", "refuse", "; ".join(findings), "check HOOKWIRE_EGRESS_ALLOW_*")
    return Check("SC-14", "egress guard", "ok", "refuses metadata addresses before a socket exists")
