"""The seeded bugs of a failover: each takes away one rule of the pool, of the standby fence, or of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final

import db.pool
import hub.publish
from app.chaos.bugs.replacing import StaleBug, replace
from app.settings.settings import Settings
from db.errors import DatabaseError
from db.numbers import Numbers
from db.pool import Database, Row
from db.replication.primary import Primary, ServerIdentity

__all__ = ["FAILOVER_BUGS"]


def _old_sessions() -> None:
    def admit(_: Primary, found: ServerIdentity | None) -> None:
        assert found is None or found.timeline > 0, "timelines begin with 1"

    def hear(_: Primary, error: DatabaseError, generation: int) -> None:
        assert generation >= 0, error

    replace(Primary, "admit", "(self, found)", lambda _: admit)
    replace(Primary, "hear", "(self, error, generation)", lambda _: hear)


def _fence_before_rows() -> None:
    async def early(self: Database, name: str, *args: object, release: Any = None) -> Sequence[Row]:
        await self.pass_fence(await self.fence_mark())
        return await self.fetch(name, *args)

    replace(Database, "fetch_fenced", "async (self, name, *args, release=None)", lambda _: early)


def _claim_past_fence() -> None:
    def make(fenced: Any) -> Any:
        async def past(self: Database, name: str, *args: object, release: Any = None) -> Sequence[Row]:
            if name == "delivery.claim":
                return await self.fetch(name, *args)
            rows: Sequence[Row] = await fenced(self, name, *args, release=release)
            return rows

        return past

    replace(Database, "fetch_fenced", "async (self, name, *args, release=None)", make)


def _direct_past_fence() -> None:
    def make(store: Any) -> Any:
        async def hasty(session: Any, units: Sequence[Any], direct: Any = None, *, wait: bool) -> Sequence[Row]:
            rows: Sequence[Row] = await store(session, units, direct, wait=wait)
            if direct is not None:
                direct.take(rows)
                direct.take = len
            return rows

        return hasty

    def has_direct_path(settings: Settings) -> bool:
        return settings.direct_deliveries

    if not isinstance(getattr(Settings, "has_direct_path", None), property):
        raise StaleBug("Settings.has_direct_path is no property")
    setattr(Settings, "has_direct_path", property(has_direct_path))  # noqa: B010 - mypy: a property without a setter
    replace(hub.publish, "_store", "async (session, units, direct=None, *, wait)", make)


def _warning_overlooked() -> None:
    def trust(_: object) -> AbstractContextManager[None]:
        return nullcontext()

    replace(db.pool, "confirmed", "(connection)", lambda _: trust)


def _sequence_behind() -> None:
    async def trust(_: Numbers, session: Any, server: str | None) -> None:
        assert session is not None, server

    replace(Numbers, "ensure", "async (self, session, server)", lambda _: trust)


FAILOVER_BUGS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType(
    {
        "old-sessions": _old_sessions,
        "fence-before-rows": _fence_before_rows,
        "direct-past-fence": _direct_past_fence,
        "claim-past-fence": _claim_past_fence,
        "warning-overlooked": _warning_overlooked,
        "sequence-behind": _sequence_behind,
    }
)
