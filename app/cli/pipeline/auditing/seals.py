"""The seals of a lake's records: the keys of this installation, and the time from which each record has one."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.cli.failure import CommandFailed
from app.cli.pipeline.lake import session as session_of_spark
from app.cli.pipeline.lake import tell
from app.cli.pipeline.marks import answering
from app.settings.settings import Settings
from db.errors import DatabaseError
from db.secret_box import SecretBoxError
from runtime.counted import counted

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.lake_audit import LakeAudit
    from pipeline.audit.seal import SealedFrom, SealKeys, Seals
    from pipeline.storage import LakeStorage

__all__ = [
    "accept_present", "keys_here", "known_seals", "more_unproved", "note_archived", "note_unproved", "noted_since",
    "tell_key",
]  # fmt: skip


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
    """Return the keys that are here, and what the database knows. Raises ``DatabaseError``, SecretBoxError."""
    from pipeline.audit.seal import Seals

    known = await session.fetchrow("lake_mark.seals", lake.uri)
    since, unproved = (None, None) if known is None else (known["sealed_from"], known["unproved"])
    return Seals(keys_here(settings), since, unproved)


async def noted_since(session: Session, lake: LakeStorage, audit: LakeAudit, seals: Seals) -> datetime | None:
    """Return the time from which all records are sealed. If no archive has noted it, the audit that proves a seal does.

    Raises ``DatabaseError``, LakeDamaged.
    """
    if seals.since is None and audit.has_seals:
        return await _noted(session, lake, await asyncio.to_thread(audit.sealed_since), seals.keys)
    return seals.since


async def _noted(session: Session, lake: LakeStorage, found: SealedFrom | None, keys: SealKeys) -> datetime | None:
    if found is None:
        return None
    await session.execute("lake_mark.seal", lake.uri, found.since, found.unproved, keys.names[0])
    return found.since


def more_unproved(seals: Seals, unsealed: int) -> list[str]:
    """Return in a sentence that more records lack a proof than the database knows; nothing if it is not so."""
    if seals.unproved is None or unsealed <= seals.unproved:
        return []
    return [
        f"{counted(unsealed, 'record')} of before {seals.since} have no seal that proves them, and the database knows "
        f"of {seals.unproved:,}: somebody took seals off or wrote records without one, or a key is missing"
    ]


async def note_unproved(session: Session, lake: LakeStorage, seals: Seals, until: datetime, unsealed: int) -> None:
    """Let the database know the number of an audit of all hours until ``until``, which found nothing.

    It counts if it covers all records that may lack a seal. Raises ``DatabaseError``.
    """
    if seals.since is not None and seals.since <= until:
        await session.execute("lake_mark.count_unproved", lake.uri, seals.since, unsealed)


def tell_key(settings: Settings, lake: LakeStorage, keys: SealKeys) -> None:
    """Tell the name of the key that seals, and whether the database knows another one."""
    tell(f"the key {keys.names[0]} seals the records")
    asyncio.run(_compare_key(settings, lake, keys))


async def _compare_key(settings: Settings, lake: LakeStorage, keys: SealKeys) -> None:
    async with answering(settings) as session:
        if session is None:
            return
        try:
            known = await session.fetchrow("lake_mark.seals", lake.uri)
            if known is None or known["seal_key"] == keys.names[0]:
                return
            if known["seal_key"] in (None, *keys.names):
                await session.execute("lake_mark.seal_with", lake.uri, keys.names[0])
            else:
                tell(
                    f"the database knows the key {known['seal_key']} of this lake, which is not here: the audit will "
                    "call these records sealed with another key. Give the archive the hub's keys, or run "
                    "`hookwire pipeline accept-seals`"
                )
        except DatabaseError as error:
            tell(f"the database does not confirm the key of the seals: {error}")


def note_archived(settings: Settings, lake: LakeStorage, spark: Any, keys: SealKeys) -> bool:
    """Note from when on all records are sealed, unless the database knows it. Return whether that is settled.

    It reads the lake. A file that cannot be read does not end the archive: an audit notes the time then.
    """
    return asyncio.run(_note_archived(settings, lake, spark, keys))


async def _note_archived(settings: Settings, lake: LakeStorage, spark: Any, keys: SealKeys) -> bool:
    from pipeline.audit.seal import sealed_since
    from pipeline.failure import SparkFailed, named
    from pipeline.lake import LakeDamaged, bronze

    def found() -> SealedFrom | None:
        with named():
            return sealed_since(bronze(lake).read(spark), keys)

    async with answering(settings) as session:
        if session is None:
            return False
        try:
            if await session.fetchrow("lake_mark.seals", lake.uri) is None:
                await _noted(session, lake, await asyncio.to_thread(found), keys)
        except DatabaseError as error:
            tell(f"the database does not know from when on the lake is sealed: {error}")
            return False
        except (LakeDamaged, SparkFailed) as error:
            tell(f"an audit has to find out from when on the lake is sealed: {error}")
    return True


def accept_present(settings: Settings, lake: LakeStorage) -> datetime:
    """Let records of before now count without a seal; return now. Raises ``DatabaseError``, LakeDamaged.

    Raises ``CommandFailed`` if there is no archived record, as with a mistyped lake.
    """
    from pipeline.audit.seal import unproved
    from pipeline.lake import bronze

    table = bronze(lake)
    if not table.is_made():
        raise CommandFailed(f"{lake.uri} has no archived record, so it is not the lake that you mean", 2)
    keys = keys_here(settings)
    if not keys.keys:
        tell("the hub's keys are not here, so no seal proves any record")
    count = unproved(table.read(session_of_spark("accept-seals", settings)), keys)
    return asyncio.run(_accept_present(settings, lake, count, keys))


async def _accept_present(settings: Settings, lake: LakeStorage, count: int, keys: SealKeys) -> datetime:
    from app.cli.database import opened_connection

    async with opened_connection(settings, application_name="hookwire accept-seals") as connection:
        name = next(iter(keys.names), None)
        since: datetime = await connection.fetchval("lake_mark.accept_seals", lake.uri, count, name)
    return since
