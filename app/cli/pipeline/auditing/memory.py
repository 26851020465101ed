"""The memory of the audit: days of the lake that it has proved, and that have not changed since."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.erasures import known_erasures
from app.cli.pipeline.lake import tell
from runtime.counted import counted

if TYPE_CHECKING:
    from db.pool import Session
    from pipeline.audit.held import HeldLake
    from pipeline.audit.inquiry import Cell
    from pipeline.audit.proof import DayTopic, Proof, Proofs

__all__ = ["AuditMemory", "recalled"]

_NAMED_MAX: Final = 10
_FILES_MAX: Final = 10_000
"""This many files, of whole days, are stored in one statement."""


@dataclass(frozen=True, slots=True)
class AuditMemory:
    """The proofs of an audit: those of earlier audits that still hold, and the present digests. By default nothing.

    The days up to ``proved_day`` need not be read; None means that all have to be. ``records`` counts the records of
    these days. ``unproved`` counts the cells of these days whose contents could not be compared, ``unsealed`` the
    records that no seal proves. ``left_out``: records of days before the ledger's that no audit has proved, by day and
    topic. ``changed``: in sentences, days before the ledger's that are other than they were proved. ``confirmed``: in
    sentences, those that a person accepts. ``forgotten``: proved days that retention has dropped since.
    """

    lake_uri: str
    present: Proofs | None = None
    proved_day: date | None = None
    records: int = 0
    unproved: int = 0
    unsealed: int = 0
    left_out: Mapping[DayTopic, int] = field(default_factory=dict)
    changed: Sequence[str] = ()
    confirmed: Sequence[str] = ()
    forgotten: Sequence[DayTopic] = ()

    @property
    def begin(self) -> datetime | None:
        """Return the hour from which the lake has to be read; None means all hours."""
        if self.proved_day is None:
            return None
        return datetime.combine(self.proved_day + timedelta(days=1), time(), UTC)

    @property
    def aged(self) -> int:
        """Return the number of records that are left out."""
        return sum(self.left_out.values())

    async def store(
        self, session: Session, since: datetime, until: datetime, cells: Sequence[Cell],
        waiting: Collection[DayTopic], early: Mapping[str, int],
    ) -> None:  # fmt: skip
        """Store the days from ``since`` until ``until`` as proved, and delete those that retention has dropped.

        The caller has read the state of the lake that was hashed, and has found nothing. No later audit looks at a
        proved day again. So a day is not proved if not all records of its files were judged, or if Kafka has more of
        them. Nor is it if one of its events was ``waiting``. ``early``: records of the first day that no audit can ever
        judge, because the ledger began within it, by topic.
        """
        if self.present is None:
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
            place: replace(proof, records=judged[place], unproved=unproved[place], unsealed=unsealed[place])
            for place, proof in self.present.days.items()
            if since.date() <= place[0] < until.date() and place not in waiting
            and proof.records == judged[place] + (early.get(place[1], 0) if place[0] == since.date() else 0)
        }  # fmt: skip
        for some in _parts(days):
            await session.execute(
                "lake.prove", self.lake_uri, [day for day, _ in some], [topic for _, topic in some],
                [proof.digest for proof in some.values()], [proof.records for proof in some.values()],
                [proof.unproved for proof in some.values()], [proof.unsealed for proof in some.values()],
                [json.dumps(proof.files) for proof in some.values()],
            )  # fmt: skip
        await session.execute(
            "lake.forget_proofs", self.lake_uri, [day for day, _ in self.forgotten],
            [topic for _, topic in self.forgotten],
        )  # fmt: skip


def _parts(days: Mapping[DayTopic, Proof]) -> Iterator[dict[DayTopic, Proof]]:
    """Yield the days in parts of a bounded number of files, in order."""
    part: dict[DayTopic, Proof] = {}
    files = 0
    for place, proof in sorted(days.items()):
        part[place] = proof
        files += 1 + len(proof.files or ())
        if files >= _FILES_MAX:
            yield part
            part, files = {}, 0
    if part:
        yield part


async def recalled(
    session: Session, spark: Any, held: HeldLake, ledger: Sequence[Mapping[str, Any]],
    options: Sequence[Any], first: date, *, reads_all: bool = True, confirms: Collection[date] = (),
) -> AuditMemory:  # fmt: skip
    """Return the proofs of earlier audits of this lake with these options, of which the incarnation is the first, by
    this version.

    ``ledger`` has the columns of ``cell.LEDGER``, and covers the days from ``first`` on. A day stands only as long as
    the database knows the same of erased events among its ids. An earlier day stands as long as its files do, whatever
    the options and the version, or a person ``confirms`` it as it is. Only these days are recalled unless
    ``reads_all``. Raises ``CommandFailed`` if a day cannot be confirmed.
    """
    from pipeline.audit.proof import Proof, proofs_of

    rows = await session.fetch("lake.proofs", uri := held.storage.uri)
    proved: dict[DayTopic, Proof] = {
        (row["day"], row["topic"]): Proof(
            row["digest"], row["records"], row["unproved"], row["unsealed"],
            None if row["files"] is None else tuple(row["files"]),
        )
        for row in rows
    }  # fmt: skip
    erased = await _erased(session, ledger) if reads_all else []
    known = {place for place, proof in proved.items() if proof.files is not None}
    present = await asyncio.to_thread(
        proofs_of, spark, held, ledger if reads_all else (), [version("hookwire-server"), *options], erased, first,
        known, reads_all=reads_all,
    )  # fmt: skip
    changed = present.changed(proved)
    confirmed = await _confirmed(session, uri, present, proved, changed, confirms)
    last = present.last_proved_day(proved)
    standing = [proved[place] for place in present.standing(last, proved)]
    return AuditMemory(
        uri, present, last, sum(proof.records for proof in standing), sum(proof.unproved for proof in standing),
        sum(proof.unsealed for proof in standing), present.left_out(proved),
        [_sentence(place, proved[place], present.of(place)) for place in changed if place[0] not in confirms],
        confirmed, [place for place in proved if present.is_forgotten(place)],
    )  # fmt: skip


async def _confirmed(
    session: Session, lake_uri: str, present: Proofs, proved: dict[DayTopic, Proof], changed: Sequence[DayTopic],
    days: Collection[date],
) -> list[str]:  # fmt: skip
    """Let these days count as proved as they are now; return them in sentences. Raises ``CommandFailed``."""
    for day in sorted(set(days) - {day for day, _ in changed}):
        raise CommandFailed(
            f"--confirm {day}: the day does not differ from what an audit has proved, or no audit has proved it"
            if day < present.first
            else f"--confirm {day}: the day is not older than the ledger, whose first day is {present.first}", 2
        )  # fmt: skip
    said = []
    for place in changed:
        if place[0] in days:
            now = present.of(place)
            await session.execute("lake.accept_proof", lake_uri, *place, now.files, now.records)
            proved[place] = replace(proved[place], files=now.files, records=now.records)
            said.append(f"{place[0]} of {place[1]} counts as proved as it is: {counted(now.records, 'record')}")
            tell(said[-1])
    return said


def _sentence(place: DayTopic, known: Proof, present: Proof) -> str:
    """Return which files of a day are other than those that were proved, and the cure."""
    words = known.differences(present)
    more = f" and {len(words) - _NAMED_MAX:,} more" if len(words) > _NAMED_MAX else ""
    return (
        f"{place[0]} of {place[1]} is older than the ledger, and other than it was proved: "
        f"{', '.join(words[:_NAMED_MAX])}{more}. Restore it from a backup. Or, if you know who changed it, as by a "
        f"compaction or an erasure, let it count as it is by `hookwire pipeline audit --confirm {place[0]}`"
    )


async def _erased(session: Session, ledger: Sequence[Mapping[str, Any]]) -> list[tuple[int, bool]]:
    if not ledger:
        return []
    low, high = min(row["owed_low"] for row in ledger), max(row["owed_high"] for row in ledger)
    return [(row["event_id"], row["is_of_lake"]) for row in await known_erasures(session, low, high)]
