"""``hookwire test-filter``: test whether an event passes a filter."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.entry import Config, Deadline, Json, Url, parsed, run
from app.cli.listing import print_done

__all__ = ["test_filter"]

Filter = Annotated[str, typer.Argument(metavar="filter", help="The filter, JSON.")]
Data = Annotated[str | None, typer.Argument(help="Data of the event, JSON.")]
Event = Annotated[str | None, typer.Option("--event-id", help="The id of a stored event, instead of DATA.")]
Topic = Annotated[str, typer.Option("--topic", help="The sample's topic.")]
Key = Annotated[str | None, typer.Option("--key", help="The sample's ordering key.")]


def test_filter(
    filter_: Filter, data: Data = None, event_id: Event = None, topic: Topic = "sample", key: Key = None,
    url: Url = None, timeout: Deadline = 30.0, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Ask the hub whether an event passes a filter. Exit code 0: it does; 1: it does not.

    Examples:

      hookwire test-filter '{"data": {"amount": {"$gte": 100}}}' '{"amount": 120}'

      hookwire test-filter '{"topic": {"$startsWith": "orders."}}' --event-id evt_k3v7q2ha_1
    """
    asked: dict[str, Any] = {"filter": parsed("FILTER", filter_)}
    if event_id is not None:
        asked["event_id"] = event_id
    else:
        asked["event"] = {"topic": topic, "key": key, "data": parsed("DATA", data) if data is not None else None}
    run(
        print_done(
            "/filters/test", asked, lambda verdict: "matches" if verdict["matches"] else "does not match", url, config,
            as_json=as_json, fails=lambda verdict: not verdict["matches"], deadline_seconds=timeout,
        )
    )  # fmt: skip
