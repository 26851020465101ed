"""``hookwire seed``: publish sample events, for a first try."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, Url, run, say

__all__ = ["batches", "samples", "seed"]

Count = Annotated[int, typer.Option("--count", min=1, max=100_000, help="How many events.")]
Prefix = Annotated[str, typer.Option("--prefix", help="Prefix of the topics.")]
Deadline = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Time limit for each batch in seconds.")]
_CUSTOMERS = 5
_STEPS = ("created", "paid", "sent", "delivered")
_BATCH = 1_000
_PRINTED_MAX = 20


def seed(
    count: Count = 12, prefix: Prefix = "orders", url: Url = None, timeout: Deadline = 30.0, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Publish sample events: orders of a few customers, each with the customer as its ordering key.

    Prints up to 20 events, of more their number by topic; with --json each event.

    Examples:

      hookwire seed

      hookwire subscribe 'demo.#' http://127.0.0.1:9000/ && hookwire seed --prefix demo --count 2000
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


def batches(count: int, prefix: str) -> Iterator[tuple[str, str, list[dict[str, object]]]]:
    """Return the samples by topic and key: a batch has one of each. Steps of an order keep their order."""
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for topic, key, content in samples(count, prefix):
        found.setdefault((topic, key), []).append(content)
    order = {f"{prefix}.{step}": place for place, step in enumerate(_STEPS)}
    for (topic, key), contents in sorted(found.items(), key=lambda item: order[item[0][0]]):
        for start in range(0, len(contents), _BATCH):
            yield topic, key, contents[start : start + _BATCH]


async def _seed(count: int, prefix: str, url: str | None, timeout: float, as_json: bool, config: Path | None) -> int:
    from app.cli.hub_client import connected, hub_of, post

    hub, published = hub_of(url, config), Counter[str]()
    async with connected() as client:
        for topic, key, contents in batches(count, prefix):
            headers = {"Content-Type": "application/x-ndjson", "Hookwire-Key": key}
            lines = "\n".join(map(json.dumps, contents)).encode("ascii")
            address = f"{hub}/topics/{topic}/events"
            made, _ = await post(address, lines, headers, deadline_seconds=timeout, client=client)
            published[topic] += len(made)
            for event in made if as_json or count <= _PRINTED_MAX else ():
                say(json.dumps(event) if as_json else f"{event['id']}  {topic}  {key}")
    if not as_json and count > _PRINTED_MAX:
        for topic, number in published.items():
            say(f"{number:,}  {topic}")
    return 0
