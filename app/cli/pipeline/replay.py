"""``hookwire pipeline replay``: publishes events of the lake, or events that an audit reports as lost, again."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.listing import print_result
from app.cli.pipeline.lake import Lake, lake_of, session, tell, told_failures
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from app.cli.pipeline.resend import Resender, Sent
    from pipeline.selection import ArchivedEvent, Selection
    from pipeline.storage import LakeStorage

__all__ = ["replay", "send_all"]

Topic = Annotated[str | None, typer.Option("--topic", help="Events of this Kafka topic.")]
Keys = Annotated[list[str] | None, typer.Option("--key", help="Events of this ordering key; may be repeated.")]
Events = Annotated[list[str] | None, typer.Option("--event", help="This event (evt_...); may be repeated.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Accepted from 2026-01-15T09:00Z on, or 2h for 2 hours ago.")
]
Until = Annotated[str | None, typer.Option("--until", help="The end, in the same format.")]
Lost = Annotated[
    Path | None, typer.Option("--lost", help="Lost events in the output of `audit --json`; read from the hub.")
]
To = Annotated[str | None, typer.Option("--to", help="Publish to this topic (default: the topic of each event).")]
Rate = Annotated[int | None, typer.Option("--rate", min=1, help="The largest number of events per second.")]
Resume = Annotated[str | None, typer.Option("--resume", help="The name of an interrupted replay to continue.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the events and send none.")]


def replay(
    topic: Topic = None, key: Keys = None, event: Events = None, since: Since = None, until: Until = None,
    lost: Lost = None, to: To = None, rate: Rate = None, resume: Resume = None, dry_run: DryRun = False,
    lake: Lake = None, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Publish archived events again: each once, in order per key, as a new event with the header `replay-of`.

    The Idempotency-Key is the old event's id. While the hub remembers these keys, a repeated replay publishes no event
    twice. Exit code 0: all were accepted; 1: some were refused; 3: the hub or the lake cannot be reached.

    Examples:

      hookwire pipeline replay --topic orders --since 2h --dry-run

      hookwire pipeline replay --topic orders --key customer-17 --to orders.rebuilt --rate 100

      hookwire pipeline audit --json --examples 100000 > audit.json; hookwire pipeline replay --lost audit.json
    """
    from app.cli.moment import moment

    asked = {
        "topic": topic, "keys": key or [], "event_ids": event or [], "since": moment("--since", since),
        "until": moment("--until", until), "to": to, "lost": _lost(lost) if lost is not None else None,
    }  # fmt: skip
    if resume is None and lost is None and not any(asked[name] for name in asked if name != "to"):
        raise CommandFailed("nothing was selected: name a topic, keys, events, a time or a file of lost events", 2)
    settings = settings_from(config)
    storage = lake_of(lake, settings)
    if resume is not None:
        asked = _resumed(storage, resume)
    with told_failures():
        if dry_run:
            _count(settings, storage, asked, as_json)
        else:
            run(_replay(settings, storage, asked, resume, rate, url, as_json))


def _lost(file: Path) -> list[str]:
    try:
        findings = json.loads(file.read_text(encoding="utf-8"))["findings"]
        return [event_id for found in findings if found["fault"] == "lost" for event_id in found["examples"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{file} is not a report of `hookwire pipeline audit --json`: {error!r}", 2) from None


def _resumed(storage: LakeStorage, name: str) -> dict[str, Any]:
    try:
        noted: dict[str, Any] = json.loads(storage.read(f"replays/{name}.json"))
    except (FileNotFoundError, ValueError):
        raise CommandFailed(f"there is no replay {name} to continue", 2) from None
    asked: dict[str, Any] = noted["asked"]
    return asked


def _selection(asked: dict[str, Any]) -> Selection:
    from pipeline.selection import Selection

    first, last = asked["since"], asked["until"]
    return Selection(
        (asked["topic"],) if asked["topic"] else (), tuple(asked["keys"]), tuple(asked["event_ids"]),
        datetime.fromisoformat(first) if first else None, datetime.fromisoformat(last) if last else None,
        asked.get("above", 0),
    )  # fmt: skip


def _count(settings: Settings, storage: LakeStorage, asked: dict[str, Any], as_json: bool) -> None:
    from pipeline.selection import count

    if asked["lost"] is not None:
        counts: dict[str, Any] = {"events": len(asked["lost"]), "oldest": None, "newest": None}
    else:
        found = count(_selected(settings, storage, asked))
        counts = {name: found[name] for name in ("events", "oldest", "newest")}
    span = f", from {counts['oldest']} to {counts['newest']}" if counts["oldest"] else ""
    print_result(counts, f"would send {counted(counts['events'], 'event')}{span}", as_json=as_json)


async def _replay(
    settings: Settings, storage: LakeStorage, asked: dict[str, Any], resume: str | None, rate: int | None,
    url: str | None, as_json: bool,
) -> int:  # fmt: skip
    from app.cli.hub_client import connected, hub_url
    from app.cli.pipeline.resend import Resender

    hub = hub_url(url, settings)
    name = resume or secrets.token_hex(4)
    async with connected() as client:
        resender = Resender(client, hub, settings.kafka_topic_prefix, asked["to"], rate)
        try:
            await send_all(settings, resender, storage, name, asked, hub)
        except (CommandFailed, asyncio.CancelledError):
            tell(f"interrupted after {resender.sent.all:,}; continue with --resume {name}")
            raise
    _show(resender.sent, name, as_json)
    return 1 if resender.sent.refused_count else 0


async def send_all(
    settings: Settings, resender: Resender, storage: LakeStorage, name: str, asked: dict[str, Any], hub: str
) -> None:
    """Send the requested events batch by batch. Note each answered batch under ``replays/`` in the lake."""
    from app.cli.pipeline.resend import BATCH, batches

    if asked["lost"] is not None:  # an empty list means that none are left; None means all events
        while asked["lost"]:
            ids, rest = asked["lost"][:BATCH], asked["lost"][BATCH:]
            await resender.send([await _of_hub(hub, event_id) for event_id in ids])
            asked["lost"] = rest
            _note(storage, name, asked)
        return
    events = await asyncio.to_thread(_of_lake, settings, storage, asked)
    parts = batches(events)
    while batch := await asyncio.to_thread(next, parts, None):
        await resender.send(batch)
        asked["above"] = batch[-1].number
        _note(storage, name, asked)
        tell(f"{resender.sent.all:,} sent")


def _of_lake(settings: Settings, storage: LakeStorage, asked: dict[str, Any]) -> Iterator[ArchivedEvent]:
    from pipeline.selection import archived

    return archived(_selected(settings, storage, asked))


def _selected(settings: Settings, storage: LakeStorage, asked: dict[str, Any]) -> Any:
    from pipeline.lake import bronze
    from pipeline.selection import files_of, select

    table, selection = bronze(storage), _selection(asked)
    return select(table.read(session("replay", settings), files_of(table.snapshot(), selection)), selection)


async def _of_hub(hub: str, event_id: str) -> ArchivedEvent:
    from app.cli.hub_client import get
    from pipeline.selection import ArchivedEvent

    found = await get(f"{hub}/events/{segment(event_id)}")
    payload = (
        found["payload"].encode() if found["payload_base64"] is None else base64.b64decode(found["payload_base64"])
    )
    number = int(event_id.rpartition("_")[2])
    return ArchivedEvent(
        event_id, number, found["topic"], found["key"], found["content_type"], found["headers"], payload
    )


def _note(storage: LakeStorage, name: str, asked: dict[str, Any]) -> None:
    storage.replace(f"replays/{name}.json", json.dumps({"asked": asked}).encode())


def _show(sent: Sent, name: str, as_json: bool) -> None:
    if as_json:
        say(json.dumps({"name": name, **asdict(sent)}))
        return
    for event_id, reason in sent.refused:
        say(f"{event_id}: {reason}")
    say(f"replay {name}: {sent.published:,} published, {sent.again:,} known already, {sent.refused_count:,} refused")
