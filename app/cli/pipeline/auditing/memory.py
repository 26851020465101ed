"""The memory of the audit: days of the lake that it has proved, and that have not changed since."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from app.cli.pipeline.auditing.erasures import known_erasures

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Cell
    from pipeline.audit.proof import DayTopic, Proofs
    from pipeline.delta.snapshot import Snapshot
    from pipeline.storage import LakeStorage

__all__ = ["AuditMemory", "recalled"]


@dataclass(frozen=True, slots=True)
class AuditMemory:
    """The proofs of an audit: those of earlier audits that still hold, and the present digests.

    The days up to ``proved_day`` need not be read; None means that all have to be. ``records`` counts the records of
    these days. ``unproved`` counts the cells of these days whose contents could not be compared, ``unsealed`` the
    records that no seal proves.
    """

    lake: LakeStorage
    present: Proofs
    proved_day: date | None
    records: int
    unproved: int
    unsealed: int

    @property
    def begin(self) -> datetime | None:
        """Return the hour from which the lake has to be read; None means all hours."""
        if self.proved_day is None:
            return None
        return datetime.combine(self.proved_day + timedelta(days=1), time(), UTC)

    async def store(
        self, session: Session, snapshot: Snapshot, since: datetime, until: datetime, cells: Sequence[Cell],
        waiting: Collection[DayTopic],
    ) -> None:  # fmt: skip
        """Store the days from ``since`` until ``until`` as proved, and delete those that retention has dropped.

        Store nothing if the audit has read another snapshot than the one that was hashed. The caller has found nothing.
        No later audit looks at a proved day again. So a day is not proved if not all records of its files were judged,
        or if Kafka has more of them. Nor is it if one of its events was ``waiting``.
        """
        if snapshot.files != self.present.snapshot.files:
            return
        unproved = Counter(
            (cell.hour.date(), cell.topic) for cell in cells if cell.has_contents is None and cell.bucket is not None
        )
        unsealed: Counter[DayTopic] = Counter()
        judged: Counter[DayTopic] = Counter()
        for cell in cells:
            unsealed[cell.hour.date(), cell.topic] += cell.unproved
            judged[cell.hour.date(), cell.topic] += cell.records - cell.erased
        days = {
            place: proof for place, proof in self.present.days.items()
            if since.date() <= place[0] < until.date() and proof.records == judged[place] and place not in waiting
        }  # fmt: skip
        await session.execute(
            "lake.prove", self.lake.uri, [day for day, _ in days], [topic for _, topic in days],
            [proof.digest for proof in days.values()], [proof.records for proof in days.values()],
            [unproved[place] for place in days], [unsealed[place] for place in days],
        )  # fmt: skip
        await session.execute(
            "lake.forget_proofs", self.lake.uri, min((day for day, _ in self.present.days), default=until.date())
        )


async def recalled(
    session: Session, spark: Any, lake: LakeStorage, ledger: Sequence[Mapping[str, Any]],
    options: Sequence[object],
) -> AuditMemory:  # fmt: skip
    """Return the proofs of earlier audits of this lake with these options by this version.

    ``ledger`` has the columns of ``cell.LEDGER``. A day stands only as long as the database knows the same of erased
    events among its ids.
    """
    from pipeline.audit.proof import Proof, proofs_of

    rows = await session.fetch("lake.proofs", lake.uri)
    proved: dict[DayTopic, Proof] = {
        (row["day"], row["topic"]): Proof(row["digest"], row["records"], row["unproved"], row["unsealed"])
        for row in rows
    }
    erased = await _erased(session, ledger)
    present = await asyncio.to_thread(proofs_of, spark, lake, ledger, [version("hookwire-server"), *options], erased)
    day = present.last_proved_day(proved)
    if day is None:
        return AuditMemory(lake, present, None, 0, 0, 0)
    left = [proved[place] for place in present.through(day)]
    records, unproved = sum(proof.records for proof in left), sum(proof.unproved for proof in left)
    return AuditMemory(lake, present, day, records, unproved, sum(proof.unsealed for proof in left))


async def _erased(session: Session, ledger: Sequence[Mapping[str, Any]]) -> list[tuple[int, bool]]:
    if not ledger:
        return []
    low, high = min(row["owed_low"] for row in ledger), max(row["owed_high"] for row in ledger)
    return [(row["event_id"], row["is_of_lake"]) for row in await known_erasures(session, low, high)]
