"""The memory of the audit: days of the lake that it has proved, and that have not changed since."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from app.cli.pipeline.auditing.erasures import known_erasures
from app.cli.pipeline.lake import tell
from runtime.counted import counted

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.inquiry import Cell
    from pipeline.audit.proof import DayTopic, Proof, Proofs
    from pipeline.audit.seal import Seals
    from pipeline.delta.snapshot import Snapshot
    from pipeline.storage import LakeStorage

__all__ = ["AuditMemory", "recalled"]

_NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class AuditMemory:
    """The proofs of an audit: those of earlier audits that still hold, and the present digests. By default nothing.

    The days up to ``proved_day`` need not be read; None means that all have to be. ``records`` counts the records of
    these days. ``unproved`` counts the cells of these days whose contents could not be compared, ``unsealed`` the
    records that no seal proves. ``left_out``: records of days before the ledger's that no audit has proved, by day.
    ``changed``: in sentences, days before the ledger's that are other than they were proved. ``forgotten``: proved days
    that retention has dropped since.
    """

    lake: LakeStorage
    present: Proofs | None = None
    proved_day: date | None = None
    records: int = 0
    unproved: int = 0
    unsealed: int = 0
    left_out: Mapping[date, int] = field(default_factory=dict)
    changed: Sequence[str] = ()
    forgotten: Sequence[DayTopic] = ()

    @property
    def begin(self) -> datetime | None:
        """Return the hour from which the lake has to be read; None means all hours."""
        if self.proved_day is None:
            return None
        return datetime.combine(self.proved_day + timedelta(days=1), time(), UTC)

    async def store(
        self, session: Session, snapshot: Snapshot, since: datetime, until: datetime, cells: Sequence[Cell],
        waiting: Collection[DayTopic], early: Mapping[str, int],
    ) -> None:  # fmt: skip
        """Store the days from ``since`` until ``until`` as proved, and delete those that retention has dropped.

        Store nothing if the audit has read another snapshot than the one that was hashed. The caller has found nothing.
        No later audit looks at a proved day again. So a day is not proved if not all records of its files were judged,
        or if Kafka has more of them. Nor is it if one of its events was ``waiting``. ``early``: records of the first
        day that no audit can ever judge, because the ledger began within it, by topic.
        """
        from pipeline.audit.rows import rows_of

        if self.present is None or snapshot.files != self.present.snapshot.files:
            return
        unproved = Counter(
            (cell.hour.date(), cell.topic) for cell in cells if cell.has_contents is None and cell.bucket is not None
        )
        unsealed: Counter[DayTopic] = Counter()
        for cell in cells:
            unsealed[cell.hour.date(), cell.topic] += cell.unproved
        judged = rows_of(cells)
        days = {
            place: proof for place, proof in self.present.days.items()
            if since.date() <= place[0] < until.date() and place not in waiting
            and proof.records == judged[place].records + (early.get(place[1], 0) if place[0] == since.date() else 0)
        }  # fmt: skip
        await session.execute(
            "lake.prove", self.lake.uri, [day for day, _ in days], [topic for _, topic in days],
            [proof.digest for proof in days.values()], [judged[place].records for place in days],
            [unproved[place] for place in days], [unsealed[place] for place in days],
            [json.dumps(proof.files) for proof in days.values()], [str(judged[place].content) for place in days],
        )  # fmt: skip
        await session.execute(
            "lake.forget_proofs", self.lake.uri, [day for day, _ in self.forgotten],
            [topic for _, topic in self.forgotten],
        )  # fmt: skip


async def recalled(
    session: Session, spark: Any, lake: LakeStorage, ledger: Sequence[Mapping[str, Any]],
    options: Sequence[Any], seals: Seals, first: date, *, reads_all: bool = True, accepts: bool = False,
) -> AuditMemory:  # fmt: skip
    """Return the proofs of earlier audits of this lake with these options, of which the incarnation is the first, by
    this version.

    ``ledger`` has the columns of ``cell.LEDGER``, and covers the days from ``first`` on. A day stands only as long as
    the database knows the same of erased events among its ids. An earlier day stands as long as its files do, whatever
    the options and the version, or a person ``accepts`` it as it is. Only these days are recalled unless ``reads_all``.
    """
    from pipeline.audit.proof import Proof, proofs_of

    rows = await session.fetch("lake.proofs", lake.uri)
    proved: dict[DayTopic, Proof] = {
        (row["day"], row["topic"]): Proof(
            row["digest"], row["records"], row["unproved"], row["unsealed"],
            None if row["files"] is None else tuple(row["files"]),
            None if row["content"] is None else int(row["content"]),
        )
        for row in rows
    }  # fmt: skip
    erased = await _erased(session, ledger) if reads_all else []
    present = await asyncio.to_thread(
        proofs_of, spark, lake, ledger if reads_all else (), [version("hookwire-server"), *options], erased, first,
        reads_all=reads_all,
    )  # fmt: skip
    changed = await _changed(session, spark, lake, present, proved, options[0], seals, accepts=accepts)
    day = present.last_proved_day(proved)
    left = [] if day is None else [proved[place] for place in present.through(day, proved)]
    left_out: Counter[date] = Counter()
    for (left_day, _), count in present.left_out(proved).items():
        left_out[left_day] += count
    return AuditMemory(
        lake, present, day, sum(proof.records for proof in left), sum(proof.unproved for proof in left),
        sum(proof.unsealed for proof in left), left_out,
        [_sentence(place, proved[place], present.of(place)) for place in changed],
        [place for place in proved if present.is_forgotten(place)],
    )  # fmt: skip


async def _changed(
    session: Session, spark: Any, lake: LakeStorage, present: Proofs, proved: dict[DayTopic, Proof], incarnation: str,
    seals: Seals, *, accepts: bool,
) -> list[DayTopic]:  # fmt: skip
    """Return the days before the ledger's that are other than they were proved.

    Days that have the same rows in other files, or all if a person ``accepts`` them, count as they are from now on.
    """
    from pipeline.audit.rows import rearranged

    changed = present.changed(proved)
    asked = {place: proved[place] for place in changed if proved[place].has_notes_of(present.of(place))}
    same = await asyncio.to_thread(rearranged, spark, lake, incarnation, seals, asked) if asked else set()
    for place in changed if accepts else sorted(same):
        now, content = present.of(place), proved[place].content if place in same else None
        proved[place] = replace(proved[place], files=now.files, records=now.records, content=content)
        await session.execute(
            "lake.accept_proof", lake.uri, *place, now.files, now.records, None if content is None else str(content)
        )
        why = "has its rows in other files" if place in same else "counts as proved as it is"
        tell(f"{place[0]} of {place[1]}, which is older than the ledger, {why}: {counted(now.records, 'record')}")
    return [] if accepts else [place for place in changed if place not in same]


def _sentence(place: DayTopic, known: Proof, present: Proof) -> str:
    """Return which files of a day are other than those that were proved, and the cure."""
    before, now = (dict(file.rsplit(" ", 1) for file in proof.files or ()) for proof in (known, present))
    words = [f"{path} {'was altered' if path in before else 'is new'}" for path in now if before.get(path) != now[path]]
    words += [f"{path} is gone" for path in before.keys() - now.keys()]
    more = f" and {len(words) - _NAMED_MAX:,} more" if len(words) > _NAMED_MAX else ""
    return (
        f"{place[0]} of {place[1]} is older than the ledger, and other than it was proved: "
        f"{', '.join(sorted(words)[:_NAMED_MAX])}{more}. Restore it from a backup. Or, if you changed it, let it count "
        "as it is by `hookwire pipeline audit --confirm`"
    )


async def _erased(session: Session, ledger: Sequence[Mapping[str, Any]]) -> list[tuple[int, bool]]:
    if not ledger:
        return []
    low, high = min(row["owed_low"] for row in ledger), max(row["owed_high"] for row in ledger)
    return [(row["event_id"], row["is_of_lake"]) for row in await known_erasures(session, low, high)]
