"""``hookwire pipeline audit``: checks the ledger, then the lake, cell by cell; unequal cells event by event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.accepted import AcceptedEvents
from app.cli.pipeline.auditing.erasures import judged_erasures
from app.cli.pipeline.auditing.memory import AuditMemory, recalled
from app.cli.pipeline.auditing.metrics import write_metrics
from app.cli.pipeline.auditing.note import audit_noted
from app.cli.pipeline.auditing.omissions import before_ledger, deleted_days
from app.cli.pipeline.auditing.recount import Recount, recounted, uncounted
from app.cli.pipeline.auditing.report import AuditReport, print_report
from app.cli.pipeline.auditing.seals import known_seals, more_unproved, note_unproved, noted_since
from app.cli.pipeline.auditing.webhooks import names_unaccounted, webhook_findings
from app.cli.pipeline.lake import Conf, Lake, lake_of, session, tell, told_failures, with_conf
from app.cli.pipeline.marks import departures_of, held_lake, store_marks
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from app.checks.ledger import LedgerReport
    from db.pool import Row, Session
    from pipeline.audit.held import HeldLake
    from pipeline.audit.inquiry import Cell, Finding
    from pipeline.audit.lake_audit import LakeAudit
    from pipeline.audit.proof import DayTopic
    from pipeline.audit.seal import Seals
    from pipeline.storage import LakeStorage

__all__ = ["audit"]

Since = Annotated[str | None, typer.Option("--since", help="The start: 2026-01-15T09:00Z, or 7d for 7 days ago.")]
Until = Annotated[str | None, typer.Option("--until", help="The end, in the same format.")]
Contents = Annotated[bool, typer.Option("--contents", help="Compare all events, also where sums agree; parse JSON.")]
Examples = Annotated[int, typer.Option("--examples", min=1, max=100_000, help="Ids to name beside each count.")]
Again = Annotated[bool, typer.Option("--again", help="Read days again that were proved and have not changed.")]
Late = Annotated[
    float | None,
    typer.Option("--late", min=0.001, help="Seconds after which an event is late (HOOKWIRE_PIPELINE_LATE_SECONDS)."),
]
Metrics = Annotated[Path | None, typer.Option("--metrics", help="Write figures for Prometheus' textfile collector.")]
Confirm = Annotated[
    list[datetime] | None,
    typer.Option("--confirm", formats=["%Y-%m-%d"], help="Let a day older than the ledger count as it is. Repeatable."),
]
SelfTest = Annotated[bool, typer.Option("--self-test", help="Plant each fault once, find all faults, remove them.")]
_FOR_EVER_DAYS = 36_500
_OF_STRANGERS = ("lost", "phantom")


@dataclass(frozen=True, slots=True)
class Question:
    """The options of one audit. ``is_noted``: it judges all hours by the hub's settings, so the database notes it."""

    since: datetime | None
    until: datetime | None
    contents: bool
    examples_max: int
    late_seconds: float
    again: bool
    confirms: Collection[date]
    is_noted: bool

    @property
    def is_of_all(self) -> bool:
        """Return whether the audit judges all hours."""
        return self.since is None and self.until is None

    @property
    def is_nightly(self) -> bool:
        """Return whether the audit may rely on days that were proved before."""
        return self.is_of_all and not self.contents and not self.again


def audit(
    lake: Lake = None, since: Since = None, until: Until = None, contents: Contents = False, examples: Examples = 10,
    again: Again = False, late: Late = None, confirm: Confirm = None, self_test: SelfTest = False,
    metrics: Metrics = None, conf: Conf = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Prove that each accepted event is in the lake, once and in order, or name the events that are not.

    The audit judges closed hours: those that ended at least 65 minutes ago and are folded into the ledger. Run
    `hookwire pipeline archive` first. Days that an audit has proved, and whose files and ledger are as they were, stay
    proved: only their files are hashed. `hookwire status` and `hookwire doctor` tell how the last audit of all hours
    ended.

    Exit code 0: everything was compared, without findings; 1: findings; 3: the database or the lake cannot be reached.
    Exit code 2: no findings, but something was not compared: cells, everything, or what the database does not confirm.

    Examples:

      hookwire pipeline audit

      hookwire pipeline audit --since 7d --contents --json

      hookwire pipeline audit --confirm 2024-11-03

      hookwire pipeline audit --self-test
    """
    from app.cli.moment import moment

    settings = with_conf(settings_from(config), conf)
    if self_test:
        run(_self_test(settings, as_json=as_json))
        return
    first, last = moment("--since", since), moment("--until", until)
    question = Question(
        datetime.fromisoformat(first) if first else None, datetime.fromisoformat(last) if last else None,
        contents, examples, settings.pipeline_late_seconds if late is None else late, again,
        {day.date() for day in confirm or ()},
        is_noted=first is None and last is None and late is None,
    )  # fmt: skip
    if confirm and not question.is_of_all:
        raise CommandFailed("--confirm accepts days of all hours, so it takes neither --since nor --until", 2)
    with told_failures():
        run(_audit(settings, lake, question, metrics, as_json=as_json))


async def _self_test(settings: Settings, *, as_json: bool) -> int:
    from app.cli.database import is_made, opened_database
    from pipeline.audit.selftest import self_test

    if not is_made(settings):
        raise CommandFailed("the self-test needs the database, which does not exist yet: start hookwire first", 3)
    spark = await asyncio.to_thread(session, "audit --self-test", settings)
    verdicts = await asyncio.to_thread(self_test, spark)
    async with opened_database(settings, application_name="hookwire audit", connections_max=1) as database:
        verdicts["unaccounted"] = await names_unaccounted(database)
    if as_json:
        say(json.dumps(verdicts))
    else:
        for fault, is_found in verdicts.items():
            say(f"{fault:12} {'found' if is_found else 'NOT FOUND'}")
    return 0 if all(verdicts.values()) else 1


async def _audit(
    settings: Settings, lake: str | None, question: Question, metrics: Path | None, *, as_json: bool
) -> int:
    from app.cli.database import opened_connection

    # Whole hours of events are read; no index makes that quick.
    async with opened_connection(settings, application_name="hookwire audit", statement_seconds=600) as connection:
        storage = lake_of(lake, settings)
        judged = _compared(connection, settings, storage, question)
        if question.is_noted:
            judged = audit_noted(connection, storage, judged, is_own=lake is None, has_contents=question.contents)
        report = await judged
    ended_at = datetime.now(UTC)
    if metrics is not None:
        write_metrics(report, metrics)
    if as_json:
        counts = {"exit_code": report.exit_code, "found": report.found, "count": report.count}
        told = {"lake_uri": storage.uri, "ended_at": ended_at, **counts, **asdict(report)}
        say(json.dumps(told, default=lambda moment: moment.isoformat()))
    else:
        print_report(report)
    return report.exit_code


async def _compared(connection: Session, settings: Settings, storage: LakeStorage, question: Question) -> AuditReport:
    from app.assembly.storage import incarnation_of
    from app.checks.ledger import compare_ledger
    from pipeline.runs import recorded_run

    incarnation = await incarnation_of(connection)
    ledger = await compare_ledger(connection, incarnation)
    since, until = await _hours(connection, question)
    owed = await connection.fetch("lake.cells", settings.kafka_topic_prefix, since, until)
    held = await held_lake(connection, storage)
    with recorded_run(storage, "audit", {"since": since.isoformat(), "until": until.isoformat()}) as noted:
        seals = await known_seals(connection, settings, storage)
        spark = await asyncio.to_thread(session, "audit", settings)
        of = _Compared(connection, settings, question, incarnation, ledger, since, until, owed, seals, spark)
        report = await _settled(of, held)
        noted.counts = {"records": report.records, "unequal": report.unequal, "findings": report.count}
        noted.counts |= {"aged": report.aged, "confirmed": len(report.confirmed)}
        noted.state = "findings" if report.count else noted.state
    return report


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a lake is compared with."""

    connection: Session
    settings: Settings
    question: Question
    incarnation: str
    ledger: LedgerReport
    since: datetime
    until: datetime
    owed: Sequence[Row]
    seals: Seals
    spark: Any


async def _settled(of: _Compared, held: HeldLake) -> AuditReport:
    """Judge the lake. If a job deletes files of it meanwhile, as an erasure or retention does, begin again, once.

    Such a job deletes files at any time after its commit: while they are hashed, or while they are read. A day that
    retention deletes would be called changed, and a file missing.
    """
    memory = await _recalled(of, held, of.question.confirms)
    if not await _has_lost_files(held):
        try:
            report = await _judged(of, held, memory)
        except Exception:
            if not await _has_lost_files(held):
                raise
        else:
            if not report.found or not await _has_lost_files(held):
                return report
    tell("a job has deleted files of the lake meanwhile: looking at it again")
    held = await held_lake(of.connection, held.storage)
    memory = replace(await _recalled(of, held, ()), confirmed=memory.confirmed)
    try:
        return await _judged(of, held, memory)
    except Exception as error:
        if not await _has_lost_files(held):
            raise
        raise CommandFailed(
            "jobs delete files of the lake while it is read: run the audit again when they have ended", 2
        ) from error


async def _recalled(of: _Compared, held: HeldLake, confirms: Collection[date]) -> AuditMemory:
    """Return the proofs of earlier audits (see :func:`recalled`); none if not all hours are judged."""
    question = of.question
    if not question.is_of_all:
        return AuditMemory(held.storage.uri)
    options = of.incarnation, question.late_seconds, _repeats_are_legal(of.settings), of.seals.since
    return await recalled(
        of.connection, of.spark, held, of.owed, options, of.since.date(), reads_all=question.is_nightly,
        confirms=confirms,
    )  # fmt: skip


async def _has_lost_files(held: HeldLake) -> bool:
    """Return whether a job has deleted files of this state. A log that was damaged meanwhile is for the next audit."""
    from pipeline.lake import LakeDamaged

    with suppress(LakeDamaged):
        return await asyncio.to_thread(held.has_lost_files)
    return False


async def _judged(of: _Compared, held: HeldLake, memory: AuditMemory) -> AuditReport:
    """Compare a lake as it was found, and store what is proved by it."""
    from pipeline.audit.inquiry import in_question
    from pipeline.audit.lake_audit import LakeAudit

    connection, question, incarnation, until = of.connection, of.question, of.incarnation, of.until
    begin = max(of.since, memory.begin or of.since)
    owed = [row for row in of.owed if row["hour"] >= begin]
    span = f"{begin:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}"
    tell(f"ledger: {counted(of.ledger.findings, 'finding')}; reading the lake from {span}")
    audit = LakeAudit(
        of.spark, held, incarnation, begin, until, question.late_seconds, of.seals, memory.proved_day, memory.left_out
    )
    differences = [
        *await departures_of(connection, held), *await before_ledger(connection), *memory.changed,
        *await asyncio.to_thread(audit.differences_seen, question.examples_max),
    ]  # fmt: skip
    kept = datetime.now(UTC) - timedelta(days=of.settings.retention_days or _FOR_EVER_DAYS)
    again = Recount(max(of.since, kept), until, of.settings.kafka_topic_prefix, incarnation, question.examples_max)
    read = await _read(connection, of.settings, audit, owed, question, again)
    cells, findings = read.cells, list(read.findings)
    of_others, findings = await asyncio.to_thread(_without_strangers, audit, incarnation, cells, findings)
    differences += of_others
    hours, of_webhooks = await webhook_findings(
        connection, incarnation, again.since, until, question.late_seconds, question.examples_max
    )
    findings += [*of_webhooks, *await recounted(connection, audit, again)]
    erasures = await judged_erasures(connection, incarnation, audit, cells, question.examples_max)
    bounds = await connection.fetch("lake_mark.bounds", held.storage.uri)
    known = {row["topic"]: row["first_day"].isoformat() for row in bounds}
    unproved = sum(cell.has_contents is None and cell.bucket is not None for cell in cells)
    unsealed = sum(cell.unproved for cell in cells) + memory.unsealed
    differences += more_unproved(of.seals, unsealed)
    report = AuditReport(
        of.since, until, of.ledger, len(cells), hours, sum(cell.records for cell in cells), memory.records,
        (audit.outside or 0) - memory.records - memory.aged, read.unarchived, len(in_question(cells)),
        unproved + memory.unproved, read.unjudged, findings, [*differences, *erasures.differences], erasures.erased,
        erasures.unconfirmed, deleted_days(audit.snapshot.state.kept, known, of.owed), unsealed,
        await noted_since(connection, held.storage, audit, of.seals), memory.aged, memory.confirmed,
    )  # fmt: skip
    if question.is_nightly and report.exit_code == 0:
        await memory.store(connection, begin, until, cells, read.waiting, audit.early)
    if report.exit_code == 0 and question.is_of_all:
        await note_unproved(connection, held.storage, of.seals, until, unsealed)
    if not report.found:
        await store_marks(connection, held.storage, held.tables, held.marks)
    return report


def _without_strangers(
    audit: LakeAudit, incarnation: str, cells: Sequence[Cell], findings: list[Finding]
) -> tuple[list[str], list[Finding]]:
    """Return a sentence if all records are of another installation, and the findings that it does not explain."""
    from pipeline.audit.inquiry import are_equally_many

    if (other := audit.other_installation()) is None:
        return [], findings
    said = (
        f"every record in these hours is of another installation, {other}, and this database is {incarnation}: "
        "it is another database, or somebody changed its name (hookwire.installation.incarnation)"
    )
    # With another number of records, some are also lost, or never were.
    explained = _OF_STRANGERS if are_equally_many(cells) else ()
    return [said], [finding for finding in findings if finding.fault not in explained]


@dataclass(frozen=True, slots=True)
class _Read:
    """The cells of lake and ledger, and what their events differ in. ``unarchived``: offsets read from Kafka.

    ``waiting``: days and topics of events that have yet to reach Kafka.
    """

    cells: Sequence[Cell]
    unarchived: int
    unjudged: Sequence[Cell]
    findings: Sequence[Finding]
    waiting: Collection[DayTopic]


async def _read(
    connection: Session, settings: Settings, audit: LakeAudit, owed: Sequence[Row], question: Question, again: Recount
) -> _Read:
    """Compare the cells, and the events of those that differ."""
    from pipeline.audit.inquiry import in_question

    cells = await asyncio.to_thread(audit.compare, owed)
    asked = in_question(cells, contents=question.contents)
    tell(f"{counted(len(cells), 'cell')} compared, {len(asked)} to compare event by event")
    # Read before Kafka's ends: an event that leaves the outbox in between is not lost.
    events = AcceptedEvents(connection, settings.kafka_topic_prefix, again.incarnation)
    waiting = await events.waiting(asked)
    if unarchived := await asyncio.to_thread(_add_unarchived, settings, audit, asked):
        cells = await asyncio.to_thread(audit.compare, owed)
        asked = in_question(cells, contents=question.contents)
    accepted, unjudged = await events.of_cells(asked, waiting)
    # Records of a cell that the ledger has lost are no phantoms.
    lost = await uncounted(connection, again)
    for cell in lost:
        if cell.sink == "kafka":
            accepted += await events.of(cell.kafka_topic, cell.hour, cell.bucket, cell.low, cell.high)
    findings = await asyncio.to_thread(
        audit.inquire, accepted, [cell for cell in asked if cell not in unjudged],
        repeats_are_legal=_repeats_are_legal(settings), examples_max=question.examples_max,
        judges_json=question.contents,
    )  # fmt: skip
    places = {(cell.kafka_topic, cell.hour) for cell in lost if cell.sink == "kafka"}
    findings = [one for one in findings if one.fault != "unexplained" or (one.topic, one.hour) not in places]
    late = {(event.hour.date(), event.topic) for event in accepted if event.state == "waiting"}
    return _Read(cells, unarchived, unjudged, [*findings, *(cell.finding for cell in lost)], late)


def _repeats_are_legal(settings: Settings) -> bool:
    return settings.kafka_mode == "idempotent"


def _add_unarchived(settings: Settings, audit: LakeAudit, asked: Sequence[Cell]) -> int:
    """Let the audit read offsets that are not archived yet, in topics whose cells differ; return their number."""
    from app.cli.pipeline.options import kafka_of
    from pipeline.archive import unarchived

    if not asked or not settings.kafka_bootstrap_servers:
        return 0
    kafka = kafka_of(settings)
    ranges = unarchived(audit.snapshot, kafka, {cell.topic for cell in asked})
    audit.add_unarchived(kafka, ranges)
    return sum(of.until - of.start for of in ranges)


async def _hours(connection: Session, question: Question) -> tuple[datetime, datetime]:
    """Return the span of hours that can be judged and were requested; raise ``CommandFailed`` if it is empty."""
    span = await connection.fetchrow("lake.span")
    assert span is not None, "the cursor has one row"
    if span["since"] >= span["until"]:
        if moved := await before_ledger(connection):
            raise CommandFailed(moved[0], 1)
        first = span["since"] + timedelta(minutes=60 + 65)
        raise CommandFailed(
            f"nothing can be judged yet: the ledger's first whole hour begins at {span['since']:%Y-%m-%d %H:%M} UTC, "
            f"and an hour is judged 65 minutes after its end. Run this from {first:%Y-%m-%d %H:%M} UTC on", 2
        )  # fmt: skip
    since = max(filter(None, (span["since"], question.since)))
    until = min(filter(None, (span["until"], question.until)))
    if since >= until:
        raise CommandFailed(
            f"no closed hour between {since:%Y-%m-%d %H:%M} and {until:%Y-%m-%d %H:%M} UTC: nothing was judged", 2
        )
    return since, until
