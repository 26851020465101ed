"""``hookwire pipeline backfill``: sends archived events to one subscription, under their old ids, and audits it."""

from __future__ import annotations

import asyncio
import getpass
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.entry import Config, Json, Why, run, say, settings_from, tell
from app.cli.failure import CommandFailed
from app.cli.pipeline.backfilling.batch import batches, judged
from app.cli.pipeline.backfilling.comparison import RangeAudit, compared, unexplained
from app.cli.pipeline.backfilling.hold import LEASE_SECONDS, RunHold
from app.cli.pipeline.backfilling.lake_range import Chosen, LakeRange, numbers_of, refuse_unknown, topics_in, topics_of
from app.cli.pipeline.lake import Lake, lake_of, told_failures
from app.settings.settings import Settings
from db.errors import DatabaseError
from event.identity import format_event_id
from runtime.counted import counted
from runtime.process import process_name

if TYPE_CHECKING:
    from app.cli.pipeline.backfilling.sending import Sending
    from db.pool import Database, Row
    from event.identity import Incarnation
    from pipeline.storage import LakeStorage

__all__ = ["Asked", "backfill", "backfilled"]

Subscription = Annotated[str | None, typer.Option("--subscription", help="The webhook that gets the events (sub_...).")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", help="Events of this topic; may be repeated (default: all that it has).")
]
Events = Annotated[list[str] | None, typer.Option("--event", help="This event (evt_...); may be repeated.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Accepted from 2026-01-15T09:00Z on, or 2h for 2 hours ago.")
]
Until = Annotated[str | None, typer.Option("--until", help="The end, in the same format.")]
Rate = Annotated[
    int | None, typer.Option("--rate", min=1, max=100_000, help="The largest number of events per second.")
]
BeforeLive = Annotated[
    bool, typer.Option("--before-live", help="Live deliveries of the subscription wait until the range is sent.")
]
Attempts = Annotated[int, typer.Option("--attempts", min=1, max=20, help="How often an event is tried.")]
Skip = Annotated[
    bool, typer.Option("--skip-refused", help="Go on past an event that the receiver refuses, and list it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the events and send none.")]
Resume = Annotated[str | None, typer.Option("--resume", help="Go on with this run (replay_...).")]
Pause = Annotated[str | None, typer.Option("--pause", help="Pause this run.")]
Cancel = Annotated[str | None, typer.Option("--cancel", help="End this run for good.")]
Audit = Annotated[str | None, typer.Option("--audit", help="Compare this run with the lake again.")]
List = Annotated[bool, typer.Option("--list", help="List the newest runs.")]
_LISTED: Final = 100
_NAMED: Final = 20
_WHY_MAX: Final = 500
_TELL_SECONDS: Final = 5.0
_SHOWN: Final = (
    "state", "subscription_id", "lake", "topics", "since_at", "until_at", "events", "replayed", "erased", "unwanted",
    "refused", "before_live", "rate_per_second", "is_held", "why", "actor", "reason", "created_at", "updated_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run takes place."""

    settings: Settings
    database: Database
    incarnation: Incarnation
    lake: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A new run, as it was asked for."""

    subscription: str
    topics: list[str] | None = None
    events: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    rate: int | None = None
    before_live: bool = False
    attempts: int = 3
    skips: bool = False
    why: str | None = None
    dry_run: bool = False


def backfill(
    subscription: Subscription = None, topic: Topics = None, event: Events = None, since: Since = None,
    until: Until = None, rate: Rate = None, before_live: BeforeLive = False, attempts: Attempts = 3,
    skip_refused: Skip = False, why: Why = None, dry_run: DryRun = False, resume: Resume = None, pause: Pause = None,
    cancel: Cancel = None, audit: Audit = None, list_runs: List = False, lake: Lake = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Send archived events to one webhook subscription, under their old ids and in order per key.

    The hub need not have the events any more. Erased events are left out and counted. At the end the lake is compared
    with what the receiver has taken. A killed run repeats at most one batch of 256 events after --resume.

    Exit code 0: the receiver got exactly the range; 1: it did not, or the run stopped; 2: a compared run has not ended;
    3: the database or the lake cannot be reached.

    Examples:

      hookwire pipeline backfill --subscription sub_3f1c0a9be2d45c7780aa --since 90d --until 30d --dry-run

      hookwire pipeline backfill --subscription sub_3f1c0a9be2d45c7780aa --topic orders --since 90d --rate 200

      hookwire pipeline backfill --resume replay_3
    """
    from app.cli.moment import moment

    first, last = moment("--since", since), moment("--until", until)
    acts = {"--resume": resume, "--pause": pause, "--cancel": cancel, "--audit": audit}
    named = [name for name, value in acts.items() if value is not None]
    if (subscription is not None) + len(named) + list_runs != 1:
        raise CommandFailed("name one of --subscription, --resume, --pause, --cancel, --audit and --list", 2)
    asked = None
    if subscription is not None:
        if first and last and datetime.fromisoformat(first) >= datetime.fromisoformat(last):
            raise CommandFailed(f"--until {until} is not after --since {since}: with spans, the larger is --since", 2)
        asked = Asked(
            subscription, topic, event or [], datetime.fromisoformat(first) if first else None,
            datetime.fromisoformat(last) if last else None, rate, before_live, attempts, skip_refused, why, dry_run,
        )  # fmt: skip
    act = named[0] if named else None
    number = _number(act, acts[act]) if act is not None else None
    with told_failures():
        run(backfilled(settings_from(config), lake, asked, act, number, as_json=as_json))


def _number(option: str, name: str | None) -> int:
    digits = (name or "").removeprefix("replay_")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise CommandFailed(f"{option} {name}: a run is named like replay_3", 2)
    return int(digits)


async def backfilled(
    settings: Settings, lake: str | None, asked: Asked | None = None, act: str | None = None,
    number: int | None = None, *, as_json: bool = True,
) -> int:  # fmt: skip
    """Begin a run, or do the act of an option with the run of this number; without either, list. Return the exit code.

    Raises ``CommandFailed`` and ``DatabaseError``.
    """
    from app.assembly.storage import incarnation_of
    from app.cli.database import hub_database

    async with hub_database(settings, application_name="hookwire backfill", connections_max=4) as database:
        place = _Place(settings, database, await incarnation_of(database), lake, as_json)
        if asked is not None:
            return await _begin(place, asked)
        if number is None:
            return await _list(place)
        found = await _row(place, number)
        if act == "--resume":
            return await _resume(place, found)
        if act == "--audit":
            return await _show(place, found["id"], await asyncio.to_thread(_range_of, place, found))
        return await _turn(place, found, "paused" if act == "--pause" else "cancelled")


async def _row(place: _Place, number: int) -> Row:
    rows = await place.database.fetch("backfill.list", "default", number, 1)
    if not rows:
        raise CommandFailed(f"there is no backfill replay_{number}", 2)
    return rows[0]


# --- begin, resume, pause, cancel ---------------------------------------------------------------------------------


async def _begin(place: _Place, asked: Asked) -> int:
    """Choose the range, and begin a run of it; or only count."""
    database, settings = place.database, place.settings
    subscription = await database.fetchrow("subscription.get", "default", asked.subscription)
    if subscription is None:
        raise CommandFailed(f"there is no subscription {asked.subscription}", 2)
    _refuse_kind(subscription)
    numbers = numbers_of(asked.events, place.incarnation)
    storage = lake_of(place.lake, settings)
    await _refuse_cut_log(database, storage)
    there = await asyncio.to_thread(topics_in, storage)
    topics = await topics_of(database, subscription["id"], settings.kafka_topic_prefix, asked.topics, there)
    chosen = Chosen(topics, numbers, asked.since, asked.until)
    whole = await asyncio.to_thread(LakeRange, settings, storage, place.incarnation, chosen)
    tell("counting the events of the range")
    found = await asyncio.to_thread(whole.counted)
    await refuse_unknown(database, place.incarnation, found["last"])
    if asked.dry_run or not found["events"]:
        return await _forecast(place, whole, subscription["id"], found, numbers)
    erased = await asyncio.to_thread(whole.count_erased, found["first"], found["last"])
    asked_at = time.monotonic()
    number = await database.fetchval(
        "backfill.create", "default", subscription["id"], list(topics.values()), numbers or None, asked.since,
        asked.until, asked.rate, getpass.getuser(), asked.why, found["first"], found["last"], storage.uri,
        found["events"], asked.before_live, process_name(), LEASE_SECONDS, asked.skips, asked.attempts,
        list(topics), erased,
    )  # fmt: skip
    tell(f"replay_{number}: {counted(found['events'], 'event')}, from {found['oldest']} to {found['newest']}")
    return await _carry_on(place, await _row(place, number), RunHold(database, number, 1, asked_at))


def _refuse_kind(subscription: Row) -> None:
    if subscription["protocol"] not in ("webhook", "websub"):
        raise CommandFailed(f"{subscription['public_id']} is no webhook: its kind is {subscription['protocol']}", 2)
    if subscription["at_most_once"]:
        raise CommandFailed(
            f"{subscription['public_id']} gets each event at most once, and a killed backfill repeats some", 2
        )


async def _refuse_cut_log(database: Database, storage: LakeStorage) -> None:
    """Raise ``CommandFailed`` if a log of the lake lacks a commit that the database knows: events are missing then."""
    from app.cli.pipeline.marks import departures, known_marks
    from pipeline.tables import lake_tables

    if found := await departures(await known_marks(database, storage), lake_tables(storage)):
        raise CommandFailed("; ".join(found), 1)


async def _forecast(
    place: _Place, whole: LakeRange, subscription: int, found: Mapping[str, Any], named: Sequence[int]
) -> int:
    """Judge every event of the range as a run would, and send none. Name those that were named and are not there."""
    said_at = time.monotonic()
    left, sends, erased, unwanted = set(named), 0, 0, 0
    parts = batches(await asyncio.to_thread(whole.events, 0))
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        batch = await judged(place.database, part, subscription, has_filter=True)
        sends, erased, unwanted = sends + len(batch.events), erased + len(batch.erased), unwanted + len(batch.unwanted)
        left.difference_update(event.id for event in part)
        if time.monotonic() - said_at > _TELL_SECONDS:
            said_at = time.monotonic()
            tell(f"{part[-1].event_id} judged")
    erased += await asyncio.to_thread(_counted_off, whole.erased(), left)
    lost = sorted(await unexplained(place.database, left))
    missing = [format_event_id(place.incarnation, number) for number in lost]
    if place.as_json:
        counts = {"events": found["events"], "would_send": sends, "erased": erased, "unwanted": unwanted}
        span = {name: found[name] for name in ("oldest", "newest")}
        say(json.dumps({"dry_run": True, **counts, "missing": missing, **span}))
        return 1 if missing else 0
    dates = f", from {found['oldest']} to {found['newest']}" if found["events"] else ""
    say(
        f"would send {sends:,} of {counted(found['events'], 'event')}{dates}; {erased:,} erased, {unwanted:,} not "
        "wanted by the filter"
    )
    if missing:
        say(f"not in this range of the lake: {' '.join(missing)}")
    return 1 if missing else 0


def _counted_off(numbers: Iterable[int], named: set[int]) -> int:
    """Return how many numbers there are; take them out of the named ones."""
    count = 0
    for number in numbers:
        named.discard(number)
        count += 1
    return count


async def _resume(place: _Place, found: Row) -> int:
    if found["state"] not in ("running", "paused"):
        raise CommandFailed(f"replay_{found['id']} is {found['state']}", 2)
    asked_at = time.monotonic()
    fence = await place.database.fetchval(
        "backfill.take", "default", found["id"], process_name(), LEASE_SECONDS, getpass.getuser()
    )
    if fence is None:
        if found["state"] == "paused":  # its process waits, and sees within a second that it may go on
            tell(
                f"{found['holder']} goes on with it; if that process is gone, resume it again in {LEASE_SECONDS:.0f} s"
            )
            return await _turn(place, found, "running")
        raise CommandFailed(
            f"replay_{found['id']} is held by {found['holder']}. If that process is gone, its lease ends within "
            f"{LEASE_SECONDS:.0f} s",
            1,
        )
    now = await _row(place, found["id"])  # the holder before may have moved the cursor
    return await _carry_on(place, now, RunHold(place.database, now["id"], fence, asked_at))


async def _turn(place: _Place, found: Row, state: str) -> int:
    verb = {"paused": "replay.pause", "running": "replay.resume", "cancelled": "replay.cancel"}[state]
    done = await place.database.fetchval(
        "replay.set_state", "default", found["id"], ["running", "paused"], state, getpass.getuser(), verb, None
    )
    if done is None:
        raise CommandFailed(f"replay_{found['id']} is {found['state']}", 2)
    now = await _row(place, found["id"])
    say(json.dumps(_shown(now)) if place.as_json else f"replay_{now['id']} {now['state']}")
    return 0


# --- a run --------------------------------------------------------------------------------------------------------


async def _carry_on(place: _Place, found: Row, hold: RunHold) -> int:
    """Send what is left of the range, give the run back, and compare it with the lake."""
    from app.cli.pipeline.backfilling.sending import Stopped

    try:
        whole = await _sent(place, found, hold)
    except asyncio.CancelledError:
        await hold.leave("paused", "it was interrupted")
        tell(f"interrupted; go on by --resume replay_{found['id']}")
        raise
    except Exception as error:
        with suppress(DatabaseError):  # then the lease ends by itself
            await hold.leave("paused", str(error).partition("\n")[0][:_WHY_MAX])
        if not isinstance(error, Stopped) or error.is_final:
            raise
        raise CommandFailed(f"{error}. Go on by --resume replay_{found['id']}", error.code) from None
    await hold.leave("done", None)
    return await _show(place, found["id"], whole)


async def _sent(place: _Place, found: Row, hold: RunHold) -> LakeRange:
    """Send while the lease is kept."""
    try:
        async with asyncio.TaskGroup() as tasks, _sending(place, found, hold) as sending:
            await hold.renew()
            keeper = tasks.create_task(hold.keep())
            whole = await asyncio.to_thread(_range_of, place, found)
            events = await asyncio.to_thread(whole.events, found["last_event_id"])
            await sending.send_all(events)
            keeper.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return whole


@asynccontextmanager
async def _sending(place: _Place, found: Row, hold: RunHold) -> AsyncIterator[Sending]:
    """Build the delivery's own parts: the guarded client, the subscriber's keys, the attempts."""
    from app.assembly.delivery_options import worker_options
    from app.assembly.outbound import guarded_client, user_agent
    from app.assembly.storage import present_secrets
    from app.cli.pipeline.backfilling.sending import Sending
    from app.settings.address import own_url
    from app.settings.egress_policy import guard_policy
    from webhooks.attempt import Attempts as Sender
    from webhooks.subscriber import Subscribers

    settings = place.settings
    if (secrets := present_secrets(settings)) is None:
        raise CommandFailed(
            "the hub's secret keys are not here, and nothing is sent unsigned: run this with the hub's "
            "HOOKWIRE_SECRET_KEYS, or with its HOOKWIRE_DATA_DIR",
            2,
        )
    port = settings.listen_address[1]
    public_url = settings.public_url.rstrip("/") or own_url(settings.listen, port)
    policy = guard_policy(settings, port)
    options = worker_options(settings, public_url, poll_seconds=1.0)
    async with aclosing(guarded_client(settings, policy, user_agent(public_url, place.incarnation))) as client:
        sender = Sender(client, public_url, options.retry_after_seconds_max)
        subscribers = Subscribers(place.database, secrets, policy)
        yield Sending(place.database, hold, found, subscribers, sender, options)


def _range_of(place: _Place, found: Row) -> LakeRange:
    """Return the range of a run that has begun; it reads the lake of its beginning unless another is named."""
    settings = place.settings
    storage = lake_of(place.lake or found["lake"], settings)
    chosen = Chosen(
        dict(zip(found["kafka_topics"], found["topics"], strict=True)), found["event_ids"] or (), found["since_at"],
        found["until_at"], found["lower_event_id"], found["upper_event_id"],
    )  # fmt: skip
    return LakeRange(settings, storage, place.incarnation, chosen)


# --- what it says -------------------------------------------------------------------------------------------------


async def _show(place: _Place, number: int, whole: LakeRange) -> int:
    """Compare a run with the lake, and print both."""
    found = await _row(place, number)
    tell("comparing the lake with what the receiver has taken")
    numbers = await asyncio.to_thread(whole.numbers)
    erased = await asyncio.to_thread(whole.erased)
    result = await compared(place.database, found, numbers, erased, place.incarnation)
    if place.as_json:
        say(json.dumps(_shown(found) | {"audit": asdict(result), "exact": result.exit_code == 0}))
    else:
        _print(found, result)
    return result.exit_code


def _print(found: Row, result: RangeAudit) -> None:
    words = (
        f"replay_{found['id']} {found['state']}: {result.sent:,} of {counted(result.events, 'event')} taken, "
        f"{result.erased:,} erased, {result.unwanted:,} not wanted by the filter, {result.refused:,} refused, "
        f"{result.missing:,} missing, {result.vanished:,} vanished, {result.extra:,} beyond the range"
    )
    say(words + (f", {result.left:,} left" if result.left else ""))
    for name, ids in result.examples.items():
        if ids:
            more = getattr(result, name) - _NAMED
            say(f"{name}: {' '.join(ids[:_NAMED])}" + (f" and {more:,} more" if more > 0 else ""))
    if result.exit_code == 0:
        say("the receiver got exactly the range")


async def _list(place: _Place) -> int:
    rows = await place.database.fetch("backfill.list", "default", None, _LISTED)
    if place.as_json:
        say(json.dumps([_shown(row) for row in rows]))
        return 0
    for row in rows:
        state = row["state"] if row["is_held"] or row["state"] != "running" else "running, held by nobody"
        why = f" ({row['why']})" if row["why"] else ""
        say(f"replay_{row['id']}  {row['subscription_id']}  {row['replayed']:,} of {row['events']:,}  {state}{why}")
    return 0


def _shown(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in _SHOWN}
    return {"id": f"replay_{row['id']}"} | {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }
