"""``hookwire services``: list and manage services, for people."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, Why, run, say
from app.cli.failure import CommandFailed
from app.cli.lines.stats import Since, Until, print_stats, work_lines
from app.cli.listing import print_done, print_listed, print_one
from app.cli.moment import shown_moment

__all__ = ["services"]

services = typer.Typer(help="Services: list, show, set, disable, enable.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The service.")]
Values = Annotated[list[str], typer.Argument(help="A setting, such as tries_max=3 or without_workers=refuse.")]
_HEADS = ("Service", "Waiting", "Leased", "Workers", "Oldest", "State")
_SETTINGS = (
    "lease_seconds", "tries_max", "idempotent", "expiry_seconds", "retention_seconds", "concurrency_max",
    "without_workers",
)  # fmt: skip


@services.command(name="list")
def list_all(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List services with their open requests.

    Example:

      hookwire services list
    """
    nothing = "there is no service yet"
    run(print_listed("/services", {}, None, url, config, _HEADS, _row, ("Service",), nothing, as_json=as_json))


@services.command()
def show(name: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the settings and counts of a service as JSON; with --json on one line.

    Example:

      hookwire services show echo
    """
    run(print_one(f"/services/{segment(name)}", url, config, as_json=as_json))


@services.command()
def stats(
    service: Name,
    since: Since = None,
    until: Until = None,
    url: Url = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print the rate of a service, its success, and how long work took.

    Example:

      hookwire services stats echo --since 1d
    """
    path = f"/services/{segment(service)}/stats"
    run(print_stats(path, work_lines, {"since": since, "until": until}, url, config, as_json=as_json))


@services.command(name="set")
def set_values(name: Name, values: Values, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Change settings of a service; the others stay unchanged. Make the service if there is none.

    Example:

      hookwire services set echo tries_max=3 concurrency_max=10
    """
    run(_set(name, _parsed(values), url, as_json, config))


@services.command()
def disable(name: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Refuse new requests of a service; those that wait are still answered.

    Example:

      hookwire services disable echo --why 'moving to another machine'
    """
    _verb(name, "disable", why, url, config, as_json=as_json)


@services.command()
def enable(name: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Accept requests again.

    Example:

      hookwire services enable echo
    """
    _verb(name, "enable", why, url, config, as_json=as_json)


def _verb(name: str, verb: str, why: str | None, url: str | None, config: Any, *, as_json: bool) -> None:
    path, done = f"/services/{segment(name)}/{verb}", {"service": name, "done": f"{verb}d"}
    words = f"{name}: {verb}d"
    run(print_done(path, {"reason": why}, lambda _: words, url, config, as_json=as_json, if_empty=done))


def _parsed(values: list[str]) -> dict[str, Any]:
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or name not in _SETTINGS:
            raise CommandFailed(f"{value!r} is no name=value of {', '.join(_SETTINGS)}", 2)
        try:
            found[name] = None if text in ("", "none") else json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _row(service: dict[str, Any]) -> tuple[str, ...]:
    counts = service["counts"]
    present = "yes" if counts["has_workers"] else "no"
    state = "disabled" if service["disabled"] else ""
    oldest = shown_moment(counts["oldest_at"])
    return (service["name"], str(counts["waiting"]), str(counts["leased"]), present, oldest, state)


async def _set(name: str, values: dict[str, Any], url: str | None, as_json: bool, config: Any) -> int:
    from app.cli.hub_client import ask, connected, hub_of

    address = f"{hub_of(url, config)}/services/{segment(name)}"
    async with connected() as client:
        present = await ask(client, "GET", address, none_for=404)
        before = {one: present[one] for one in _SETTINGS} if present is not None else {}
        made = await ask(client, "PUT", address, json.dumps({**before, **values}).encode())
    say(json.dumps(made) if as_json else json.dumps(made, indent=2))
    return 0
