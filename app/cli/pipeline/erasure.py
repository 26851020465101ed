"""``hookwire pipeline erase``: delete one subject's records from the lake, confirmed by the database."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.entry import Config, Json, run, settings_from
from app.cli.failure import CommandFailed
from app.cli.listing import print_result
from app.cli.pipeline.lake import DryRun, Lake, Topic, lake_of, session, tell, told_failures
from app.cli.pipeline.marks import marked
from app.settings.settings import Settings
from runtime.counted import counted, were

if TYPE_CHECKING:
    from pipeline.repair.subject import Subject
    from pipeline.storage import LakeStorage

__all__ = ["erase"]

Keys = Annotated[list[str] | None, typer.Option("--key", help="An ordering key of the subject; may be repeated.")]
KeysFile = Annotated[Path | None, typer.Option("--keys-file", help="A file with ordering keys, one per line.")]
Events = Annotated[list[str] | None, typer.Option("--event", help="An event (evt_...); may be repeated.")]
Subjects = Annotated[list[str] | None, typer.Option("--subject", help="A CloudEvents subject; may be repeated.")]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Confirm in the database what the lake notes as erased; erase nothing.")
]
_PAGE: Final = 10_000
_CONFIRM: Final = "`hookwire pipeline erase --confirm`, with the settings of the hub's database"


def erase(
    key: Keys = None, keys_file: KeysFile = None, event: Events = None, subject: Subjects = None,
    confirm: Confirm = False, lake: Lake = None, topic: Topic = None, dry_run: DryRun = False, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Erase one subject's records from the lake, and search the lake again as a proof.

    The subject is named by ordering keys, by ids of events and by CloudEvents subjects; a record needs one of them.
    This includes the typed and rejected rows that were made of them, quarantine/ and files of killed batches.
    Unreadable files of the latter two kinds are deleted.

    Numbers, topics and hours of the erased events stay, so that the audit does not report them as lost. The database
    notes their ids first: the audit names an erasure that it does not know of. Kafka and the events in the hub are not
    touched. Exit code 1: new records were written meanwhile; run it again.

    Examples:

      hookwire pipeline erase --key customer-17 --dry-run

      hookwire pipeline erase --keys-file subject.txt --json

      hookwire pipeline erase --subject customer-17 --event evt_k3v7q2ha_42
    """
    from pipeline.repair.subject import Subject
    from pipeline.tables import lake_tables

    settings = settings_from(config)
    named = Subject(tuple(_keys(key, keys_file)), topic, tuple(event or ()), tuple(subject or ()))
    is_named = bool(named.keys or named.event_ids or named.subjects)
    if confirm == is_named:
        raise CommandFailed(
            "nobody was named: use --key, --keys-file, --event or --subject" if not confirm else
            "--confirm takes neither keys nor events nor subjects: it confirms all that the lake notes", 2
        )  # fmt: skip
    storage = lake_of(lake, settings)
    spark = session("erase", settings)
    with told_failures():
        if confirm:
            run(_confirm_noted(spark, storage, settings, dry_run, as_json))
        elif dry_run:
            _plan(spark, storage, named, as_json)
        else:
            with marked(settings, storage, lake_tables(storage)):
                run(_erase(spark, storage, named, settings, as_json))


def _keys(given: list[str] | None, file: Path | None) -> list[str]:
    keys = list(given or ())
    if file is not None:
        try:
            keys += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(f"cannot read {file}: {error}", 2) from None
    return [key for key in keys if key]


def _plan(spark: Any, storage: LakeStorage, subject: Subject, as_json: bool) -> None:
    from pipeline.erasure import find, find_beside
    from pipeline.lake import bronze
    from pipeline.typed.tables import made_tables

    tables = [bronze(storage), *made_tables(storage)]
    found = [find(spark, table, subject) for table in tables]
    beside = [one for table in tables for one in find_beside(storage, table, subject)]
    records, *typed = (sum(each.values()) for each in found)
    files, unreadable = sum(map(len, found)), sum(one.found is None for one in beside)
    done = {
        "records": records, "files": files, "remnants": len(beside), "unreadable": unreadable,
        "remaining": records + sum(typed), "typed": sum(typed), "confirmed": 0,
    }  # fmt: skip
    words = (
        f"{_rows(records, sum(typed))} in {counted(files, 'file')} would be erased, and those in "
        f"{counted(len(beside), 'file')} beside the table, {unreadable} of which cannot be read and would be deleted"
    )
    print_result(done, words, as_json=as_json)


def _rows(records: int, typed: int) -> str:
    words = counted(records, "record")
    return f"{words} and {counted(typed, 'typed row')}" if typed else words


async def _erase(spark: Any, storage: LakeStorage, subject: Subject, settings: Settings, as_json: bool) -> int:
    from pipeline.erasure import erase, ids_of
    from pipeline.lake import bronze
    from pipeline.runs import recorded_run

    table = bronze(storage)
    inputs = {
        "keys": len(subject.keys), "topic": subject.topic, "events": len(subject.event_ids),
        "subjects": len(subject.subjects),
    }  # fmt: skip
    # The run does not note whom it erased, because that may name a person.
    with recorded_run(storage, "erase", inputs) as noted:
        ids = await asyncio.to_thread(ids_of, spark, storage, table, subject)
        # The database first: a kill after it leaves records that a repeat finds, and no note that nobody confirmed.
        confirmed = await _confirm(settings, ids) if ids else 0
        erased = await asyncio.to_thread(erase, spark, storage, table, subject, noted.id)
        noted.counts = done = {name: getattr(erased, name) for name in erased.__slots__}
    done |= {"confirmed": confirmed}
    words = (
        f"{_rows(erased.records, erased.typed)} erased from {counted(erased.files, 'file')}, "
        f"{counted(erased.replaced, 'older file')} deleted, "
        f"{erased.remnants} beside the table cleared; the database confirms {counted(confirmed, 'event')}"
    )
    print_result(done, f"{words}; a search of the lake finds {erased.remaining} left", as_json=as_json)
    return 1 if erased.remaining else 0


async def _confirm_noted(spark: Any, storage: LakeStorage, settings: Settings, dry_run: bool, as_json: bool) -> int:
    from pipeline.erasure import noted_ids

    ids = await asyncio.to_thread(noted_ids, spark, storage)
    confirmed = await _confirm(settings, ids) if ids and not dry_run else 0
    done = {"noted": len(ids), "confirmed": confirmed}
    words = f"noted as erased: {counted(len(ids), 'event')}; {confirmed:,} {were(confirmed)} confirmed"
    print_result(done, words, as_json=as_json)
    return 0


async def _confirm(settings: Settings, ids: Sequence[str]) -> int:
    """Note in the database that the lake has erased these events; return their number.

    The events of another installation are left out. Where no database exists, none is noted.
    """
    from app.assembly.storage import incarnation_of
    from app.cli.database import is_made, opened_database

    if not is_made(settings):
        tell(f"there is no database here, so the audit will call this erasure unconfirmed. Later, run {_CONFIRM}")
        return 0
    async with opened_database(settings, application_name="hookwire erase", connections_max=1) as database:
        numbers = _numbers(ids, await incarnation_of(database))
        async with database.transaction() as transaction:
            for start in range(0, len(numbers), _PAGE):
                await transaction.execute("erasure.confirm_lake", "default", numbers[start : start + _PAGE])
            await transaction.execute(
                "erasure.audit", "default", getpass.getuser(), "events in the lake", None, len(numbers)
            )
    return len(numbers)


def _numbers(ids: Sequence[str], incarnation: str) -> list[int]:
    """Return the numbers of those ids that are of this installation; a lake may hold events of others."""
    from event.identity import name_of, parse_event_id

    own: list[int] = []
    for text in ids:
        try:
            whose, number = parse_event_id(text)
        except ValueError:  # a stranger's record
            continue
        if whose == name_of(incarnation, number):
            own.append(number)
    return own
