"""``hookwire subscribe``: register a callback from the shell."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.entry import Config, Deadline, Json, Url, parsed, run
from app.cli.listing import print_done

__all__ = ["subscribe"]

Topic = Annotated[str, typer.Argument(help="A topic, or a pattern: * is one word, # any number of words.")]
Callback = Annotated[str, typer.Argument(help="The http or https URL that events are POSTed to.")]
Secret = Annotated[
    str | None,
    typer.Option("--secret", help="Signing secret: whsec_ and base64 of 24-64 bytes. Default: the hub makes one."),
]
Ordered = Annotated[bool, typer.Option("--ordered", help="Deliver each key's events one after the other.")]
Filter = Annotated[
    str | None, typer.Option("--filter", help="Filter on the content of events, as JSON; see test-filter.")
]


def subscribe(
    topic: Topic, callback: Callback, secret: Secret = None, ordered: Ordered = False, filter_: Filter = None,
    url: Url = None, timeout: Deadline = 30.0, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Subscribe a callback to a topic or a pattern. Print its id and its signing secret, which is shown only now.

    Examples:

      hookwire subscribe 'orders.#' http://127.0.0.1:9000/

      hookwire subscribe orders.created https://shop.example/hook --ordered --json

      hookwire subscribe 'orders.#' http://127.0.0.1:9000/ --filter '{"data": {"amount": {"$gte": 100}}}'
    """
    asked: dict[str, object] = {"topic": topic, "callback": callback, "secret": secret, "ordered": ordered}
    if filter_ is not None:
        asked["filter"] = parsed("--filter", filter_)
    body = {name: value for name, value in asked.items() if value is not None}
    run(print_done("/subscriptions", body, _shown, url, config, as_json=as_json, deadline_seconds=timeout))


def _shown(made: dict[str, Any]) -> str:
    return f"id      {made['id']}\nsecret  {made['secret']}"
