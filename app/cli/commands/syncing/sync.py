"""``hookwire sync``: make topics and subscriptions match a file, and show the differences."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say
from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from app.cli.asking.session import HubSession
    from app.cli.commands.syncing.plan import SyncStep

__all__ = ["sync"]

File = Annotated[Path, typer.Argument(help="TOML with [topics.NAME] and [[subscriptions]], or the same as JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the differences; exit code 1 if there are any.")]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="End subscriptions made by the API that the file does not name."),
]
_DEADLINE_SECONDS = 60.0


def sync(
    file: File, dry_run: DryRun = False, prune: Prune = False, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Make the hub's topics and subscriptions match a file. Options that the file leaves out stay unchanged.

    The whole file is checked before anything is changed.

    Examples:

      hookwire sync hub.toml --dry-run

      hookwire sync hub.toml --prune
    """
    document = _document(file)
    if prune and "subscriptions" not in document:
        raise CommandFailed(
            f"{file} has no subscriptions, so all would end; write `subscriptions = []` to end them all", 2
        )
    run(_sync(document, url, dry_run=dry_run, prune=prune, as_json=as_json, config=config))


def _document(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
        document = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}", 2) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise CommandFailed(f"{file}: {error}", 2) from None
    if not isinstance(document, dict):
        raise CommandFailed(f"{file}: not a table", 2)
    return document


async def _sync(
    document: dict[str, Any], url: str | None, *, dry_run: bool, prune: bool, as_json: bool, config: Path | None
) -> int:
    from app.cli.commands.syncing.check import check_wanted
    from app.cli.commands.syncing.plan import plan, read_wanted, summary
    from app.cli.hub_client import connected, get_all, hub_of

    wanted_topics, wanted_subscriptions = read_wanted(document)
    check_wanted(wanted_topics, wanted_subscriptions)
    hub = hub_of(url, config)
    async with connected() as client:
        topics = {name: await _topic(client, hub, name) for name in wanted_topics}
        steps = plan(wanted_topics, wanted_subscriptions, topics, await get_all(f"{hub}/subscriptions"), prune=prune)
        for step in steps:
            made = None if dry_run else await _done(client, hub, step)
            _show(step, made, as_json=as_json)
    if not as_json and (told := summary(steps, is_done=not dry_run) if steps else "nothing differs"):
        say(told)
    return 1 if dry_run and steps else 0


async def _topic(client: HubSession, hub: str, name: str) -> Any:
    """Return the topic's settings; None if the topic does not exist."""
    from app.cli.hub_client import ask

    return await ask(client, "GET", f"{hub}/topics/{segment(name)}/settings", none_for=404)


async def _done(client: HubSession, hub: str, step: SyncStep) -> Any:
    from app.cli.hub_client import ask

    body = None if step.action == "end" else json.dumps(step.body).encode()
    return await ask(client, step.method, hub + step.path, body)


def _show(step: SyncStep, made: Any, *, as_json: bool) -> None:
    if as_json:
        differences = {name: [before, after] for name, before, after in step.differences}
        said: dict[str, Any] = {"action": step.action, "what": step.what, "name": step.name, "differences": differences}
        said |= {"open_deliveries": step.owed} if step.action == "end" else {}
        say(json.dumps(said | ({"answer": made} if made is not None else {})))
        return
    for line in step.lines():
        say(line)
    if isinstance(made, dict) and "secret" in made:
        say(f"    id {made['id']}, secret {made['secret']}")
