"""Inbound sources: ``hookwire sources add``, ``show``, ``test`` and ``remove``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.data import read_data, segment
from app.cli.entry import Config, Json, Url, run, say
from app.cli.failure import CommandFailed
from app.cli.listing import print_list
from app.cli.moment import shown_moment
from app.cli.named_values import named_values

__all__ = ["add", "remove", "show", "try_out"]

_SECRET_VARIABLE: Final = "HOOKWIRE_SOURCE_SECRET"  # noqa: S105 - the name of a variable
_HEADS: Final = ("Arrived", "Outcome", "Address", "Bytes", "Event", "Reason")
Preset = Annotated[
    str, typer.Argument(help="github, gitlab, gitlab-signed, stripe, shopify, slack, standard, or hmac.")
]
Name = Annotated[str, typer.Argument(help="The inbound source.")]
OwnName = Annotated[str | None, typer.Option("--name", help="Its name, the end of its address; default: the preset.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Such as git.{type}; default: {source}.{type}.")]
Secret = Annotated[
    str | None, typer.Option("--secret", envvar=_SECRET_VARIABLE, help="Other users can see options of a process.")
]
SecretFile = Annotated[
    str | None,
    typer.Option("--secret-file", help="The file with the secret, - for standard input."),
]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="name=value, as in PUT /in/{source}; may be repeated.")
]
Publish = Annotated[bool, typer.Option("--publish", help="Store the example as an event; subscribers get it.")]


def add(
    preset: Preset, name: OwnName = None, topic: Topic = None, secret: Secret = None, secret_file: SecretFile = None,
    settings: Setting = None, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Make a door for the webhooks of a sender, or change it. Print its address, and its secret if the hub made one.

    Another secret replaces the present one, which stays valid for a day.

    Example:

      HOOKWIRE_SOURCE_SECRET='...' hookwire sources add github --topic 'git.{type}'
    """
    asked: dict[str, Any] = {"preset": preset, **named_values(settings or [])}
    if topic is not None:
        asked["topic"] = topic
    if secret_file is not None or secret:
        asked["secret"] = secret if secret_file is None else _secret(secret_file)
    run(_add(name or preset, asked, url, as_json, config))


def show(name: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Show an inbound source with its last requests. Exit code 1: the newest of them was refused.

    Example:

      hookwire sources show github
    """
    run(_show(name, url, as_json, config))


def try_out(
    name: Name, publish: Publish = False, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Sign an example of the sender, judge it, and print the event that it makes.

    Example:

      hookwire sources test github
    """
    run(_try(name, publish, url, as_json, config))


def remove(name: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Remove an inbound source. Its events stay; its requests are refused within three seconds.

    Example:

      hookwire sources remove github
    """
    run(_remove(name, url, as_json, config))


def _secret(file: str) -> str:
    try:
        text = read_data(file if file == "-" else f"@{file}").decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CommandFailed("the secret is not text", 2) from None
    if not text:
        raise CommandFailed("the secret is empty", 2)
    return text


async def _add(name: str, asked: dict[str, Any], url: str | None, as_json: bool, config: Path | None) -> int:
    found = await _ask("PUT", name, json.dumps(asked).encode(), url, config)
    if as_json:
        say(json.dumps(found))
        return 0
    say(f"{name} takes webhooks at {found['url']}")
    if found["secret"] is not None:
        say(f"secret, shown only now: {found['secret']}")
    return 0


async def _show(name: str, url: str | None, as_json: bool, config: Path | None) -> int:
    found = await _ask("GET", name, None, url, config)
    rows = sorted((*found["accepted"], *found["refused"]), key=lambda one: str(one["arrived_at"]), reverse=True)
    if as_json:
        say(json.dumps(found))
    else:
        say(f"{found['url']}  preset {found['preset']}, topic {found['topic']}, {len(found['secrets'])} secrets")
        print_list(rows, _HEADS, _row, ("Reason",), "none: no request has come yet", as_json=False)
    return int(bool(rows) and rows[0]["reason"] is not None)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    outcome = "refused" if one["reason"] is not None else "accepted"
    reason = f"{one['reason']}: {one['detail']}" if one["reason"] is not None else one["detail"] or ""
    return (
        shown_moment(one["arrived_at"]), outcome, one["address"], str(one["bytes"]), one["event_id"] or "", reason,
    )  # fmt: skip


async def _try(name: str, publish: bool, url: str | None, as_json: bool, config: Path | None) -> int:
    found = await _ask("POST", name, json.dumps({"publish": publish}).encode(), url, config, "/test")
    if as_json:
        say(json.dumps(found))
        return 0
    say(f"the signature is right; topic {found['topic']}, delivery id {found['delivery_id'] or 'none'}")
    say(f"published as {found['event_id']}" if found["event_id"] else "nothing was published; --publish does")
    return 0


async def _remove(name: str, url: str | None, as_json: bool, config: Path | None) -> int:
    await _ask("DELETE", name, None, url, config)
    say(json.dumps({"source": name, "removed": True}) if as_json else f"{name} is removed")
    return 0


async def _ask(
    method: str, name: str, content: bytes | None, url: str | None, config: Path | None, verb: str = ""
) -> Any:
    from app.cli.hub_client import ask, connected, hub_of

    address = f"{hub_of(url, config)}/in/{segment(name)}{verb}"
    async with connected() as client:
        return await ask(client, method, address, content)
