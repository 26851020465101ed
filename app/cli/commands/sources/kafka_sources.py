"""``hookwire sources``: Kafka topics that are read, and the records that were refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say
from app.cli.failure import CommandFailed
from app.cli.listing import listed, print_list
from app.cli.moment import shown_moment

__all__ = ["sources"]

sources = typer.Typer(
    help="Webhooks of others: add, show, test, remove. Kafka sources: list, pause, resume, reset; refusals, retry and "
    "skip of refused records; forget what nobody reads.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(help="The source, which is the name of its Kafka topic.")]
Unread = Annotated[str, typer.Argument(help="The Kafka topic, pattern or AMQP queue; * stands for any characters.")]
AnyName = Annotated[str | None, typer.Argument(help="The source; default: all, also queues of AMQP.")]
Refusal = Annotated[str, typer.Argument(help="refusal_7, as `refusals` shows it.")]
Why = Annotated[str | None, typer.Option("--why", help="Goes into the audit trail.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of records.")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="This partition alone; default: each.")]
Offset = Annotated[int | None, typer.Option("--offset", min=0, help="The next offset; default: the end.")]
Yes = Annotated[bool, typer.Option("--yes", help="Make the moves. Without it they are only printed.")]
_HEADS: Final = ("Source", "Topic", "Partition", "Next", "Lag", "Age", "Rate", "Refused", "State")
_REFUSAL_HEADS: Final = ("Refusal", "Place", "Key", "Bytes", "Refused", "Reason")


@sources.command(name="list")
def list_all(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List all sources, each partition of a Kafka source, and the topics that a pattern passes over. Exit code 1: one
    waits, records were refused, or nobody reads a topic that fits a pattern.

    Example:

      hookwire sources list
    """
    run(_list(url, as_json, config))


@sources.command()
def pause(name: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Stop reading a source, in every process. Records wait in Kafka.

    Example:

      hookwire sources pause stock --why 'the shop moves'
    """
    run(_act(f"/sources/{segment(name)}/pause", {"reason": why}, f"{name} is paused", url, as_json, config))


@sources.command()
def resume(name: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Read a source again, from the offsets in the database.

    Example:

      hookwire sources resume stock
    """
    run(_act(f"/sources/{segment(name)}/resume", {"reason": why}, f"{name} is read again", url, as_json, config))


@sources.command()
def reset(
    name: Name, partition: Partition = None, offset: Offset = None, yes: Yes = False, why: Why = None, url: Url = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Print where the partitions of a source would go on; with --yes, move them. Going back publishes records again.

    Example:

      hookwire sources reset stock --partition 0 --offset 4000 --yes --why 'ticket 4711'
    """
    asked = {"partition": partition, "offset": offset, "dry_run": not yes, "reason": why}
    run(_reset(name, asked, url, as_json, config))


@sources.command()
def forget(
    name: Unread, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:  # fmt: skip
    """End the trouble about a source that no process reads any more, because it shall not be read.

    Example:

      hookwire sources forget 'shop-*' --why 'the shop is closed'
    """
    run(_act("/sources/forget", {"source": name, "reason": why}, f"{name} is forgotten", url, as_json, config))


@sources.command()
def refusals(
    name: AnyName = None, limit: Limit = 1000, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """List the refused records of a source, or what all sources have refused, with messages of AMQP. Exit code 1: there
    is one.

    Example:

      hookwire sources refusals stock
    """
    run(_refusals(name, limit, url, as_json, config))


@sources.command()
def retry(refusal: Refusal, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Publish a refused record after all, for example after a limit was raised, and the records that waited for it.

    Example:

      hookwire sources retry refusal_7 --why 'larger events are allowed now'
    """
    run(_settle(refusal, "retry", why, f"{refusal} is published", url, as_json, config))


@sources.command()
def skip(refusal: Refusal, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Forget a refused record. It stays in Kafka. Records that waited for it are published.

    Example:

      hookwire sources skip refusal_7 --why 'malformed, ticket 4711'
    """
    run(_settle(refusal, "give-up", why, f"{refusal} is forgotten", url, as_json, config))


async def _list(url: str | None, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import get, hub_of

    found = (await get(f"{hub_of(url, config)}/sources"))["items"]
    nothing: list[dict[str, Any] | None] = [None]
    rows = [(one, part) for one in found for part in one["partitions"] or _passed_over(one) or nothing]
    if as_json:
        print_list(found, _HEADS, str, (), "", as_json=True)
    else:
        print_list(
            rows,
            _HEADS,
            _row,
            ("Topic", "State"),
            "none: no Kafka topic was ever read, and there is no door for webhooks",
            as_json=False,
        )
    return int(any(one["refused"] or (part and (part.get("trouble") or part.get("is_unread"))) for one, part in rows))


def _passed_over(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the topics that a pattern passes over, and a last line for those without a name."""
    named: list[dict[str, Any]] = one["passed_over"]
    more = one["passed_over_count"] - len(named)
    return [*named, {"topic": f"{more} more", "reason": "they are not named here"}] if more > 0 else named


def _row(row: tuple[dict[str, Any], dict[str, Any] | None]) -> tuple[str, ...]:
    one, part = row
    if part is not None and "reason" in part:
        state = f"passes over {part['topic']}: {part['reason']}"
        return (one["source"], one["topic"] or "?", "", "", "", "", "", "", state)
    if part is None:
        last = one["accepted_at"]
        seen = f"last {shown_moment(last)}" if last else "no webhook yet"
        state = f"{one['preset']}, {seen}" if one["preset"] else "ok"
        return (one["source"], one["topic"] or "?", "", "", "", "", "", str(one["refused"]), state)
    lag = "?" if part["lag"] is None else str(part["lag"])
    age = "?" if part["age_seconds"] is None else f"{part['age_seconds']:.0f} s"
    rate = "?" if part["rate"] is None else f"{part['rate']:.0f}/s"
    state = "paused" if one["paused"] else part["trouble"] or "ok"
    return (
        one["source"], one["topic"] or "?", str(part["partition"]), str(part["next_offset"]), lag, age, rate,
        str(one["refused"]), state,
    )  # fmt: skip


async def _refusals(name: str | None, limit: int, url: str | None, as_json: bool, config: Path | None) -> int:
    path = "/source-refusals" if name is None else f"/sources/{segment(name)}/refusals"
    found = await listed(path, {}, limit, url, config)
    print_list(found, _REFUSAL_HEADS, _refusal_row, ("Key", "Reason"), "none: no record was refused", as_json=as_json)
    if len(found) == limit and not as_json:
        others = ", or name a source: `hookwire status` lists those that have refused" if name is None else ""
        say(f"only the first {limit:,} are listed: use --limit{others}")
    return int(bool(found))


def _refusal_row(one: dict[str, Any]) -> tuple[str, ...]:
    holds = "; it holds its key" if one["holds"] and one["reason"] != "behind" else ""
    return (
        one["id"], _place(one), one["key"] or "", str(one["bytes"]),
        shown_moment(one["refused_at"]), f"{one['reason']}: {one['detail']}{holds}",
    )  # fmt: skip


def _place(one: dict[str, Any]) -> str:
    return one["source"] if one["kind"] == "amqp" else f"{one['source']}/{one['partition']}@{one['offset']}"


async def _reset(name: str, asked: dict[str, Any], url: str | None, as_json: bool, config: Path | None) -> int:
    found = await _post(f"/sources/{segment(name)}/reset", asked, url, config)
    if as_json:
        say(json.dumps(found))
        return 0
    verb = "would go" if found["dry_run"] else "goes"
    for move in found["moves"]:
        say(f"partition {move['partition']} {verb} from {move['next_offset']} to {move['to_offset']}")
    if found["dry_run"]:
        say("nothing is changed; add --yes to move them")
    return 0


async def _settle(
    refusal: str, verb: str, why: str | None, said: str, url: str | None, as_json: bool, config: Path | None
) -> int:
    if not refusal.startswith("refusal_"):
        raise CommandFailed(f"{refusal} is no refusal: hookwire sources refusals SOURCE lists them", 2)
    path, asked = f"/source-refusals/{segment(refusal)}/{verb}", {"reason": why}
    if as_json:
        return await _act(path, asked, said, url, as_json, config)
    return await _settled(path, asked, said, url, config)


async def _settled(path: str, asked: dict[str, Any], said: str, url: str | None, config: Path | None) -> int:
    found = await _post(path, asked, url, config)
    say(said)
    if found["released"]:
        say(f"published behind it: {found['released']}")
    if found["held_by"]:
        say(f"{found['held_by']} holds the key now: retry or skip it")
    return 0


async def _act(path: str, asked: dict[str, Any], said: str, url: str | None, as_json: bool, config: Path | None) -> int:
    found = await _post(path, asked, url, config)
    say(json.dumps(found) if as_json else said)
    return 0


async def _post(path: str, asked: dict[str, Any], url: str | None, config: Path | None) -> Any:
    from app.cli.hub_client import AS_JSON, hub_of, post

    address = f"{hub_of(url, config)}{path}"
    found, _ = await post(address, json.dumps(asked).encode(), AS_JSON, deadline_seconds=60.0)
    return found
