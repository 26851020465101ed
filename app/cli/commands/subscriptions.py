"""``hookwire subscriptions``: list, show, pause, test, rotate and end subscriptions."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say, tell
from app.cli.failure import CommandFailed
from app.cli.lines.narrow import Narrow
from app.cli.lines.stats import Since, Until, attempt_lines, print_stats
from app.cli.listing import print_done, print_listed, print_one

__all__ = ["subscriptions"]

subscriptions = typer.Typer(
    help="Subscriptions: list, show, pause, drain, resume, test, rotate their key, end.", no_args_is_help=True
)
Id = Annotated[str, typer.Argument(help="sub_..., as `hookwire subscriptions list` shows it.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Exactly this topic or pattern.")]
State = Annotated[str | None, typer.Option("--state", help="active, disabled, gone, expired or denied.")]
Health = Annotated[str | None, typer.Option("--health", help="healthy, failing, slow, behind, paused, untried, ...")]
Name = Annotated[str | None, typer.Option("--name", help="Exactly this name.")]
Host = Annotated[str | None, typer.Option("--host", help="Only callbacks at this host, such as shop.example.")]
Metadata = Annotated[str | None, typer.Option("--metadata", help="owner:team-orders: this name and value.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of subscriptions.")]
Type = Annotated[str, typer.Option("--type", help="hmac or ed25519.")]
Overlap = Annotated[int, typer.Option("--overlap-seconds", min=0, help="How long the former keys sign too.")]
Wait = Annotated[float, typer.Option("--wait", min=0, max=3600, help="Seconds to wait for the receiver's answer.")]
Grain = Annotated[str | None, typer.Option("--grain", help="minute, hour or day: the points of --json.")]
_POLL_SECONDS: Final = 0.2
_HEADS: Final = ("Subscription", "Name", "Topic", "Callback", "Health", "Waiting")
_NARROW: Final = Narrow(
    ("Subscription", "Health", "Waiting:", "Topic"), ("Name:", "Callback"), cuts=("Name", "Topic", "Callback")
)


@subscriptions.command(name="list")
def list_all(
    topic: Topic = None, state: State = None, health: Health = None, name: Name = None, metadata: Metadata = None,
    host: Host = None, limit: Limit = 1000, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List subscriptions, oldest first. `hookwire status` sorts them by health, with their reasons.

    Examples:

      hookwire subscriptions list

      hookwire subscriptions list --topic 'orders.#' --json

      hookwire subscriptions list --health failing --metadata owner:team-orders
    """
    asked = {"topic": topic, "state": state, "health": health, "name": name, "metadata": metadata, "host": host}
    run(
        print_listed(
            "/subscriptions", asked, limit, url, config, _HEADS, _row, ("Name", "Topic", "Callback"),
            "there is no such subscription; make one with `hookwire subscribe`", as_json=as_json, narrow=_NARROW,
        )
    )  # fmt: skip


@subscriptions.command()
def show(subscription: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one subscription as JSON; with --json on one line.

    Example:

      hookwire subscriptions show sub_3f1c0a9be2d45c7780aa
    """
    run(print_one(_path(subscription), url, config, as_json=as_json))


@subscriptions.command()
def stats(
    subscription: Id, since: Since = None, until: Until = None, grain: Grain = None, url: Url = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Print the rate of a subscription, its success, and how long attempts and deliveries took.

    Examples:

      hookwire subscriptions stats sub_3f1c0a9be2d45c7780aa

      hookwire subscriptions stats sub_3f1c0a9be2d45c7780aa --since 30d --json
    """
    path, asked = f"/subscriptions/{segment(subscription)}/stats", {"since": since, "until": until, "grain": grain}
    run(print_stats(path, attempt_lines, asked, url, config, as_json=as_json))


@subscriptions.command()
def pause(subscription: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send nothing until `resume`. Open deliveries wait. Events accepted in the meantime get no delivery; `hookwire
    replay --subscription ID --since 2h` sends them later.

    Example:

      hookwire subscriptions pause sub_3f1c0a9be2d45c7780aa
    """
    _set_state(subscription, {"state": "disabled"}, url, as_json, config)


@subscriptions.command()
def drain(subscription: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send what waits, and nothing new, until `resume`. Events accepted in the meantime get no delivery.

    Example:

      hookwire subscriptions drain sub_3f1c0a9be2d45c7780aa
    """
    _set_state(subscription, {"state": "disabled", "drains": True}, url, as_json, config)


@subscriptions.command()
def resume(subscription: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send again. This also ends a receiver's own pause and closes the breaker.

    Example:

      hookwire subscriptions resume sub_3f1c0a9be2d45c7780aa
    """
    _set_state(subscription, {"state": "active"}, url, as_json, config)


@subscriptions.command()
def test(subscription: Id, wait: Wait = 30.0, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send a test event to this callback alone and print the receiver's answer. Exit code 1: it is not delivered.

    The event is signed and retried as any other. It passes an open breaker as its probe.

    Example:

      hookwire subscriptions test sub_3f1c0a9be2d45c7780aa
    """
    run(_test(subscription, wait, url, as_json, config))


@subscriptions.command()
def rotate(
    subscription: Id, type_: Type = "hmac", overlap_seconds: Overlap = 86_400, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Make a new signing key and print it, only now. The former keys sign too while they overlap.

    Examples:

      hookwire subscriptions rotate sub_3f1c0a9be2d45c7780aa

      hookwire subscriptions rotate sub_3f1c0a9be2d45c7780aa --type ed25519 --overlap-seconds 3600
    """
    asked = {"type": type_, "overlap_seconds": overlap_seconds}
    run(print_done(f"{_path(subscription)}/keys", asked, _new_key, url, config, as_json=as_json))


@subscriptions.command()
def end(subscription: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """End a subscription for good. Its open deliveries become dead letters of the kind `gone`.

    Example:

      hookwire subscriptions end sub_3f1c0a9be2d45c7780aa
    """
    words, done = f"{subscription}: ended", {"id": subscription, "done": "ended"}
    run(
        print_done(
            _path(subscription), None, lambda _: words, url, config, as_json=as_json, method="DELETE", if_empty=done
        )
    )


def _path(subscription: str) -> str:
    return f"/subscriptions/{segment(subscription)}"


def _set_state(subscription: str, change: dict[str, Any], url: str | None, as_json: bool, config: Any) -> None:
    run(print_done(_path(subscription), change, _health, url, config, as_json=as_json, method="PATCH"))


def _health(one: dict[str, Any]) -> str:
    return f"{one['id']}: {one['health']}; {one['reason']}"


def _new_key(made: dict[str, Any]) -> str:
    public = f"\npublic  {made['public_key']}" if made["public_key"] else ""
    return f"number  {made['number']}\nsecret  {made['secret']}{public}"


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    callback = one["callback"] or f"({one['protocol']})"
    return one["id"], one["name"] or "", one["topic"], callback, one["health"], str(one["waiting"])


async def _test(subscription: str, wait: float, url: str | None, as_json: bool, config: Any) -> int:
    from app.cli.hub_client import ask, connected, get, hub_of
    from app.cli.lines.attempt import attempt_line

    hub = hub_of(url, config)
    async with connected() as client:
        sent = await ask(client, "POST", f"{hub}{_path(subscription)}/test")
    asked = {"event_id": sent["event_id"], "subscription_id": subscription}
    until = asyncio.get_running_loop().time() + wait
    while True:
        page = await get(f"{hub}/deliveries", params=asked)
        if not page["items"]:
            raise CommandFailed(f"{sent['delivery_id']} was sent, and is no longer known", 1)
        delivery = page["items"][0]
        if (delivery["attempts"] and delivery["state"] != "sending") or asyncio.get_running_loop().time() >= until:
            break
        await asyncio.sleep(_POLL_SECONDS)
    async with connected() as client:
        # A key for some topics may not read attempts of the hub's own topic.
        found = await ask(client, "GET", f"{hub}/deliveries/{sent['delivery_id']}/attempts", none_for=404)
    attempts = found["items"] if found is not None else []
    if as_json:
        say(json.dumps({**delivery, "attempts_made": attempts}))
    else:
        for attempt in attempts:
            say(attempt_line(attempt))
        say(f"{delivery['id']}: {delivery['state']}; {delivery['reason']}")
    if not delivery["attempts"]:
        tell(f"the receiver did not answer within {wait:g} s; see: hookwire attempts {delivery['id']}")
    return int(delivery["state"] != "delivered")
