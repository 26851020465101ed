"""The seals of a lake's records: the keys of this installation, and the time from which each record has one."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from app.cli.pipeline.lake import tell
from app.settings.settings import Settings
from db.secret_box import SecretBoxError

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.lake_audit import LakeAudit
    from pipeline.audit.seal import SealKeys, Seals
    from pipeline.storage import LakeStorage

__all__ = ["accept_present", "keys_here", "known_seals", "noted_since"]


def keys_here(settings: Settings) -> SealKeys:
    """Return the keys of the seals; none if they are not here. Raises SecretBoxError for a setting that is no key set.

    Only the hub's account may read its key file. Other accounts go on without it, and are told so.
    """
    from app.cli.pipeline.options import seal_keys_of
    from pipeline.audit.seal import NO_KEYS

    try:
        return seal_keys_of(settings)
    except SecretBoxError as error:
        if settings.secret_keys is not None:
            raise
        tell(str(error))
        return NO_KEYS


async def known_seals(session: Session, settings: Settings, lake: LakeStorage) -> Seals:
    """Return the keys that are here, and the time that the database knows. Raises ``DatabaseError``, SecretBoxError."""
    from pipeline.audit.seal import Seals

    return Seals(keys_here(settings), await session.fetchval("lake_mark.sealed_from", lake.uri))


async def noted_since(session: Session, lake: LakeStorage, audit: LakeAudit, seals: Seals) -> datetime | None:
    """Return the time from which all records are sealed. The first audit that proves a seal notes it.

    Raises ``DatabaseError``, LakeDamaged.
    """
    since = seals.since
    if since is None and audit.has_seals:
        since = await asyncio.to_thread(audit.sealed_since)
        if since is not None:
            await session.execute("lake_mark.seal", lake.uri, since)
    return since


def accept_present(settings: Settings, lake: LakeStorage) -> datetime:
    """Let records of before now count without a seal; return now. Raises ``DatabaseError``."""
    return asyncio.run(_accept_present(settings, lake))


async def _accept_present(settings: Settings, lake: LakeStorage) -> datetime:
    from app.cli.database import opened_connection

    async with opened_connection(settings, application_name="hookwire accept-seals") as connection:
        since: datetime = await connection.fetchval("lake_mark.accept_seals", lake.uri)
    return since
