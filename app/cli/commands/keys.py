"""``hookwire keys``: make, list and revoke API keys in the database itself, because the first key needs no key."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from hub.keys import Keys, Scope

__all__ = ["keys"]

keys = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A name for the key, such as that of its user.")]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        help="publish, subscribe, read, payloads, operate, enqueue, work, call or admin (all); may be repeated.",
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="A topic or pattern that the key may use; may be repeated. Default: all."),
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        help="A queue or pattern that the key may use. A key with only --topic may use no queue, kind or service.",
    ),
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="A kind of tasks and jobs, or a pattern, that the key may use.")
]
Services = Annotated[list[str] | None, typer.Option("--service", help="A service or pattern that the key may use.")]
Lifetime = Annotated[
    str | None, typer.Option("--expires-in", help="Lifetime: 30d, 12h, 90m or 45s. Default: until revoked.")
]
KeyId = Annotated[str, typer.Argument(help="key_ and twelve hexadecimal digits, as `hookwire keys list` shows it.")]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PAGE = 500


@keys.command()
def create(
    name: Name, scope: Scopes, topic: Topics = None, queue: Queues = None, kind: Kinds = None, service: Services = None,
    expires_in: Lifetime = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Make a key and print it; it is never shown again. Send it as `Authorization: Bearer <key>`, or set HOOKWIRE_TOKEN
    for commands.

    Examples:

      hookwire keys create operator --scope admin

      hookwire keys create shop --scope publish --topic 'orders.#' --expires-in 90d
    """
    reach = {"topics": topic, "queues": queue, "kinds": kind, "services": service}
    run(_create(name, scope, reach, expires_in, as_json, config))


@keys.command()
def generate(as_json: Json = False) -> None:
    """Print the text of a new key, and store nothing. The hub makes it its first key if it starts with this text in
    HOOKWIRE_BOOTSTRAP_KEY.

    Example:

      hookwire keys generate
    """
    from hub.keys import new_text

    text = new_text()
    say(json.dumps({"key": text}) if as_json else text)


@keys.command(name="list")
def list_keys(as_json: Json = False, config: Config = None) -> None:
    """List keys, revoked and expired ones too, oldest first.

    Example:

      hookwire keys list --json
    """
    run(_list(as_json, config))


@keys.command()
def revoke(key_id: KeyId, as_json: Json = False, config: Config = None) -> None:
    """End a key: every process refuses it within five seconds.

    Example:

      hookwire keys revoke key_3f1c0a9be2d4
    """
    run(_revoke(key_id, as_json, config))


@asynccontextmanager
async def _open(config: Path | None) -> AsyncIterator[Keys]:
    from app.cli.database import migrated_database
    from hub.keys import Keys

    async with migrated_database(settings_from(config), application_name="hookwire keys") as database:
        yield Keys(database)


async def _create(
    name: str, scopes: Sequence[str], reach: Mapping[str, list[str] | None], expires_in: str | None, as_json: bool,
    config: Path | None,
) -> int:  # fmt: skip
    from event.topic import TopicError
    from hub.keys import SCOPES, NewKey

    if unknown := set(scopes) - set(SCOPES):
        raise CommandFailed(f"--scope is one of {', '.join(SCOPES)}, not {', '.join(sorted(unknown))}", 2)
    if not name.isprintable() or not 1 <= len(name) <= 100:
        raise CommandFailed("NAME is one line of at most 100 characters", 2)
    try:
        patterns = {which: given or None for which, given in reach.items()}
        new = NewKey(name, cast("Sequence[Scope]", scopes), lifetime_seconds=_seconds(expires_in), **patterns)
    except TopicError as error:
        raise CommandFailed(f"--topic, --queue, --kind or --service: {error}", 2) from None
    async with _open(config) as opened:
        row, text = await opened.create(new)
    say(json.dumps(_shown(row) | {"key": text}) if as_json else f"id   {row['public_id']}\nkey  {text}")
    return 0


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise CommandFailed(f"--expires-in is a number and s, m, h or d, such as 90d, not {text}", 2)
    return float(match[1]) * _UNITS[match[2]]


async def _list(as_json: bool, config: Path | None) -> int:
    found: list[dict[str, Any]] = []
    async with _open(config) as opened:
        after = 0
        while rows := await opened.list(after, _PAGE):
            found += [_shown(row) for row in rows]
            after = rows[-1]["id"]
    if as_json:
        say(json.dumps(found))
    else:
        _print(found)
    return 0


async def _revoke(key_id: str, as_json: bool, config: Path | None) -> int:
    async with _open(config) as opened:
        row = await opened.revoke(key_id)
    if row is None:
        raise CommandFailed(f"there is no key {key_id}; see: hookwire keys list", 2)
    say(json.dumps(_shown(row)) if as_json else f"revoked {key_id}")
    return 0


def _shown(row: Any) -> dict[str, Any]:
    times = {name: row[name] and row[name].isoformat() for name in ("expires_at", "revoked_at", "created_at")}
    names = ("name", "scopes", "topics", "queues", "kinds", "services")
    return {"id": row["public_id"], **{name: row[name] for name in names}, **times}


def _print(found: Sequence[dict[str, Any]]) -> None:
    from app.cli.table import show

    if not found:
        say("none: no key was made; make one with `hookwire keys create NAME --scope publish`")
        return
    rows = [
        (key["id"], key["name"], ", ".join(key["scopes"]), _reach(key),
         _day(key["expires_at"]) or "never", _day(key["revoked_at"]))
        for key in found
    ]  # fmt: skip
    show(("Key", "Name", "Scopes", "For", "Expires", "Revoked"), rows, folds=("Name", "Scopes", "For"))


def _reach(key: Mapping[str, Any]) -> str:
    """Return the patterns of a key: those of topics alone, all others after their type."""
    named = [*(key["topics"] or ())]
    for which in ("queues", "kinds", "services"):
        named += [f"{which.removesuffix('s')}:{pattern}" for pattern in key[which] or ()]
    return ", ".join(named) or "every"


def _day(moment: str | None) -> str:
    """Return the time, without fractions of a second."""
    return moment[:19] if moment else ""
