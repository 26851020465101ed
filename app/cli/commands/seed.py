"""``hookwire seed``: publish sample events, for a first try."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, Url, run, say, settings_from

__all__ = ["samples", "seed"]

Count = Annotated[int, typer.Option("--count", min=1, max=100_000, help="How many events.")]
Prefix = Annotated[str, typer.Option("--prefix", help="Prefix of the topics.")]
Deadline = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Time limit for each event in seconds.")]
_CUSTOMERS = 5
_STEPS = ("order.placed", "order.paid", "parcel.sent", "parcel.delivered")


def seed(
    count: Count = 12, prefix: Prefix = "shop", url: Url = None, timeout: Deadline = 30.0, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Publish sample events: orders of a few customers, each with the customer as its ordering key.

    Examples:

      hookwire seed

      hookwire subscribe 'demo.#' http://127.0.0.1:9000/ && hookwire seed --prefix demo --count 100
    """
    run(_seed(count, prefix, url, timeout, as_json, config))


def samples(count: int, prefix: str) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Yield topic, key and content of each event; every call yields the same events."""
    for number in range(count):
        order, step = divmod(number, len(_STEPS))
        customer = f"customer-{order % _CUSTOMERS + 1}"
        content: dict[str, object] = {
            "order": 1000 + order,
            "customer": customer,
            "total": f"{19 + 7 * (order % 9)}.90",
        }
        yield f"{prefix}.{_STEPS[step]}", customer, content


async def _seed(count: int, prefix: str, url: str | None, timeout: float, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import connected, hub_url, post

    hub = hub_url(url, settings_from(config))
    async with connected() as client:
        for topic, key, content in samples(count, prefix):
            headers = {"Content-Type": "application/json", "Hookwire-Key": key}
            body = json.dumps(content).encode()
            made, _ = await post(f"{hub}/topics/{topic}/events", body, headers, deadline_seconds=timeout, client=client)
            say(json.dumps(made) if as_json else f"{made['id']}  {topic}  {key}")
    return 0
