"""Check of the standby fence: whether the standbys that it requires can be seen, and can be waited for."""

from __future__ import annotations

from contextlib import aclosing

from app.checks.check import Check
from app.settings.settings import Settings
from db.direct import connect_direct
from db.pool import PoolOptions
from db.replication.standby_fence import Required, Standbys

__all__ = ["standby_fence_check", "standby_fence_checks"]


async def standby_fence_checks(settings: Settings, options: PoolOptions) -> list[Check]:
    """Return the check; none without a fence. Raises ``db.errors.DatabaseError``."""
    if not settings.standby_fence:
        return []
    async with aclosing(await connect_direct(options)) as connection:
        row = await connection.fetchrow("standby_fence.look")
    assert row is not None, "a row of scalars"
    return [standby_fence_check(Required.parse(settings.standby_fence), Standbys.of(row))]


def standby_fence_check(required: Required, standbys: Standbys) -> Check:
    """Compare what is required with what one look has found."""
    about = "standby_fence", "standby fence"
    if standbys.is_managed and not standbys.names:
        detail = "this managed server copies its storage and shows no standby, so there is no position to wait for"
        return Check(*about, "refuse", detail, "unset HOOKWIRE_STANDBY_FENCE (docs/how-to/high-availability.md)")
    if not standbys.sees_all:
        return Check(*about, "refuse", "the role cannot see the standbys", "GRANT pg_monitor to the hub's role")
    if required.names and standbys.own_name not in required.names:
        detail = f"this server's cluster_name is {standbys.own_name!r}, which is none of {', '.join(required.names)}"
        return Check(*about, "warn", detail, "name each server of the cluster by its cluster_name")
    if reason := required.lacking(standbys, 0):
        return Check(*about, "warn", f"events are held back: {reason}", "connect the standby, or change the setting")
    return Check(*about, "ok", f"required and connected: {', '.join(sorted(standbys.names))}")
