"""``hookwire erase``: erase the contents of events. ``hookwire rewrite``: remove the freed bytes from the files."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from, tell
from app.cli.failure import CommandFailed
from runtime.counted import counted, were

if TYPE_CHECKING:
    from db.pool import Database

__all__ = ["erase", "rewrite"]

Topic = Annotated[str | None, typer.Option("--topic", help="The topic of the key, or of the subject.")]
Key = Annotated[str | None, typer.Option("--key", help="The ordering key of the events.")]
Subject = Annotated[
    str | None, typer.Option("--subject", help="The CloudEvents subject of the events, of one topic or of all.")
]
Events = Annotated[list[str] | None, typer.Option("--event", help="This event (evt_...); may be repeated.")]
ReplaceKey = Annotated[bool, typer.Option("--replace-key", help="Replace the key by its digest: it names a person.")]
Force = Annotated[bool, typer.Option("--force", help="End open deliveries and live jobs of these events, too.")]
Why = Annotated[str | None, typer.Option("--why", help="The reason, for the audit trail; name no person in it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for older transactions and for locks.")]
_STEP: Final = 500
_DEADLINE_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 86_400.0
_COUNTS: Final = (
    "examined", "events", "erased_before", "unknown", "unsent", "deliveries", "jobs", "attempts", "archived_jobs",
)  # fmt: skip
_PAUSE_SECONDS: Final = 0.2


def erase(
    topic: Topic = None, key: Key = None, subject: Subject = None, event: Events = None,
    replace_key: ReplaceKey = False, force: Force = False, why: Why = None, dry_run: DryRun = False, url: Url = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Erase the contents of events: of one key of a topic, of one CloudEvents subject, or those that --event names.

    Content, headers, excerpts of answers, and jobs that were made from the events go. Ids, order, times and the
    ledger stay. Exit code 1: some events still wait for a sink, and were left out.

    No index finds a subject: the command reads all events of the topic, or of the hub, and says how far it is.

    Examples:

      hookwire erase --topic orders.created --key customer-17 --dry-run

      hookwire erase --topic orders.created --key customer-17 --replace-key --why 'request 4711'

      hookwire erase --subject customer-17 --topic orders.created --dry-run

      hookwire erase --event evt_k3v7q2ha_42
    """
    if sum((bool(event), key is not None, subject is not None)) != 1 or (key is not None and topic is None):
        raise CommandFailed("choose events in one way: --topic with --key, --subject, or --event", 2)
    if event and topic is not None:
        raise CommandFailed("--topic is for --key and --subject: an id names its event alone", 2)
    asked = {"replace_key": replace_key, "force": force, "dry_run": dry_run, **({"reason": why} if why else {})}
    chosen = (
        [{"event_ids": event[start : start + _STEP]} for start in range(0, len(event), _STEP)]
        if event
        else [{name: one for name, one in (("topic", topic), ("key", key), ("subject", subject)) if one is not None}]
    )
    run(_erase([asked | one for one in chosen], url, as_json, config))


async def _erase(requests: list[dict[str, Any]], url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import AS_JSON, connected, hub_of, post

    hub = hub_of(url, config)
    total: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    places: dict[str, None] = {}
    async with connected() as client:
        for first in requests:
            body: dict[str, Any] | None = first
            while body is not None:
                content = json.dumps(body).encode("ascii")
                done, _ = await post(
                    f"{hub}/erasures", content, AS_JSON, deadline_seconds=_DEADLINE_SECONDS, client=client
                )
                total.update({name: done[name] for name in _COUNTS})
                places |= dict.fromkeys(done["not_reached"])
                body = first | {"after": done["next_after"]} if done["next_after"] else None
                if body is not None:
                    unread = f", at most {done['unread']:,} to read" if done["unread"] is not None else ""
                    tell(f"{counted(total['examined'], 'event')} read{unread}; {total['events']:,} chosen so far")
    is_dry = requests[0]["dry_run"]
    if as_json:
        say(json.dumps({"dry_run": is_dry, **{name: total[name] for name in _COUNTS}, "not_reached": [*places]}))
    else:
        for line in _lines(total, [*places], is_dry=is_dry):
            say(line)
    return 1 if total["unsent"] and not is_dry else 0


def _lines(total: Counter[str], places: list[str], *, is_dry: bool) -> Iterator[str]:
    """Yield the result in words."""
    verb = "would be" if is_dry else were(total["events"])
    yield (
        f"{counted(total['events'], 'event')} {verb} erased, with "
        f"{counted(total['attempts'], 'excerpt')} of answers and {counted(total['archived_jobs'], 'ended job')}"
    )
    if total["deliveries"] or total["jobs"]:
        ended = "open; --force ends them" if is_dry else "ended"
        yield f"{counted(total['deliveries'], 'delivery')} and {counted(total['jobs'], 'live job')} {ended}"
    if total["erased_before"]:
        yield f"{counted(total['erased_before'], 'event')} {were(total['erased_before'])} erased before"
    if total["unknown"]:
        yield f"{counted(total['unknown'], 'id')} of no event"
    if total["unsent"]:
        yield f"{counted(total['unsent'], 'event')} still in the outbox: repeat this when none is left"
    if places:
        yield "not reached: " + "; ".join(places)


def rewrite(dry_run: DryRun = False, wait: Wait = 60.0, as_json: Json = False, config: Config = None) -> None:
    """Write the tables of erased events into new files, so that no freed bytes of them stay.

    One table after the other is locked: nothing reads or writes it meanwhile. While the newest partition of events is
    rewritten, publishing waits. Each needs free space of its own size. `--dry-run` prints the tables and their sizes.

    Examples:

      hookwire rewrite --dry-run

      hookwire rewrite
    """
    run(_rewrite(dry_run, wait, as_json, config))


async def _rewrite(dry_run: bool, wait: float, as_json: bool, config: Path | None) -> int:
    from app.cli.database import opened_database
    from db.statements import for_partition

    async with opened_database(
        settings_from(config), application_name="hookwire rewrite", statement_seconds=_LONGEST_SECONDS,
        lock_seconds=max(wait, 1.0), connections_max=1,
    ) as database:  # fmt: skip
        begun = await database.fetchrow("erasure.begin_rewrite")
        assert begun is not None, "a row of scalars"
        tables = await database.fetch("erasure.tables")
        if tables and not dry_run:
            await _await_older(database, begun["xid"], wait)
            for table in tables:
                tell(f"rewrites {table['name']}, {_size(table['bytes'])}; nothing reads or writes it meanwhile")
                await database.with_statements(for_partition(table["name"])).execute("partition.rewrite")
            await database.execute("erasure.analyze")
            if tables[0]["owns_statistics"]:
                await database.execute("erasure.rewrite_statistics")
            else:
                tell("the catalog pg_statistic may hold samples of values; the owner of the database rewrites it")
            await database.execute("erasure.rewritten", begun["at"])
    found = [
        {"table": table["name"], "bytes": table["bytes"], "stops_publishing": table["has_events"]} for table in tables
    ]
    if as_json:
        say(json.dumps({"dry_run": dry_run, "events": begun["events"], "tables": found}))
        return 0
    for one in found:
        stop = "; publishing may wait" if one["stops_publishing"] else ""
        say(f"{one['table']}  {_size(one['bytes'])}{stop}")
    verb = "would be" if dry_run else were(len(found))
    say(f"{counted(len(found), 'table')} {verb} rewritten, for {counted(begun['events'], 'erased event')}")
    return 0


async def _await_older(database: Database, xid: str, wait: float) -> None:
    """Wait for transactions that may still read the former contents: a rewrite keeps these rows for them."""
    deadline = time.monotonic() + wait
    while readers := [row["name"] for row in await database.fetch("erasure.old_readers", xid)]:
        if time.monotonic() >= deadline:
            raise CommandFailed(
                f"nothing was rewritten: older transactions may still read the erased rows: {', '.join(readers)}. "
                "End them, or wait longer with --wait",
                1,
            )
        await asyncio.sleep(_PAUSE_SECONDS)


def _size(size: int) -> str:
    """Return a number of bytes in MiB.

    >>> _size(3_500_000)
    '3.3 MiB'
    """
    return f"{size / 1_048_576:,.1f} MiB"
