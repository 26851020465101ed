"""One word for each thing in the contract, and what is stable: FT-15, ADR 51."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import RunningHub, running_hub
from tests.app.web.publishing.test_ingest import kind
from tests.app.web.test_openapi import DOCUMENT, operations

__all__ = ["running_hub"]

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "http-api.md").read_text("utf-8")
FORMER_VERBS = ("try", "skip")


def fields() -> Iterator[tuple[str, str]]:
    """Schema and property, of every schema."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        yield from ((name, field) for field in schema.get("properties", ()))


def test_the_next_time_that_something_is_tried_has_one_name() -> None:
    """FT-15: it was next_attempt_at, next_probe_at, next_try_at and next_delivery_at."""
    assert {field for _, field in fields() if re.fullmatch(r"next_\w+_at", field)} == {"next_attempt_at"}


def test_the_end_of_a_claim_and_the_end_of_a_websub_lease_have_a_name_each() -> None:
    """FT-15: claims had both names."""
    leases = {schema for schema, field in fields() if field == "lease_until"}
    assert leases == {"PairOut", "SubscriptionCreated", "SubscriptionDetail", "SubscriptionOut", "UpstreamOut"}


def test_what_waits_is_retried_or_given_up_and_what_is_dead_is_purged() -> None:
    """FT-15: it was try or retry; give-up, skip or purge."""
    last = [(path, path.rpartition("/")[2]) for path, _, _ in operations()]
    assert [path for path, verb in last if verb in FORMER_VERBS] == []
    assert [path for path, verb in last if verb == "purge" and "dead" not in path] == []


def test_deliveries_and_what_is_undelivered_have_the_same_states() -> None:
    """FT-15: an event that was not fanned out was queued in one list and pending in the other."""
    schemas = DOCUMENT["components"]["schemas"]
    names = ("DeliveryOut", "EventDeliveryOut", "UndeliveredOut")
    states = [schemas[name]["properties"]["state"].get("enum") for name in names]
    assert states == [states[0]] * 3
    assert {"pending", "held"} <= set(schemas["SinkOut"]["properties"]["state"]["enum"])
    assert {"pending", "held"} <= set(schemas["EventOut"]["properties"]["state"]["enum"])


def test_the_page_says_of_each_part_whether_it_is_stable() -> None:
    """FT-15: as the document does."""
    rows = re.findall(r"^\| ([\w ,]+) \| (stable|preview)\b", PAGE, re.MULTILINE)
    told = {name: word for names, word in rows for name in names.split(", ")}
    assert told == {tag["name"]: tag["x-stability"] for tag in DOCUMENT["tags"]}


@pytest.mark.parametrize("path", ["/deliveries/dlv_1_1/try", "/holds/hold_1/skip", "/holds/hold_1/purge"])
async def test_the_former_names_still_answer(kept_hub: RunningHub, path: str) -> None:
    """ADR 51: with the refusal of their own route, which names the thing."""
    answer = await kept_hub.client.post(path)
    told = answer.json()["detail"]
    assert (kind(answer)[::2], "delivery" in told or "hold" in told) == ((404, "not-found"), True)


def test_every_list_of_what_happened_can_be_cut_by_time() -> None:
    """FT-13: of events, deliveries and dead letters."""
    paths = ("/events", "/deliveries", "/dead-letters")
    names = {path: {one["name"] for one in DOCUMENT["paths"][path]["get"]["parameters"]} for path in paths}
    assert [path for path in paths if not {"since", "until"} <= names[path]] == []
