"""Sync check: find the parts of a file that the hub would refuse, before anything is changed. Pure.

The file is read with the API's own models, so a misspelled name or a value out of range is known by its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from app.cli.failure import CommandFailed
from app.web.api.events.topics import TopicSettings
from app.web.api.subscribing.format_check import check_format
from app.web.api.subscribing.subscription_contract import SubscriptionIn
from app.web.problem import Problem
from event.topic import TopicError, validate_topic
from hub.filter import FilterError, compile_filter

__all__ = ["check_wanted"]

Json = Mapping[str, Any]
_SHOWN_MAX = 20


def check_wanted(topics: Mapping[str, Json], subscriptions: Sequence[Json]) -> None:
    """Raise ``CommandFailed`` with a line for each part that the hub would refuse."""
    found = [*_of_topics(topics), *_of_subscriptions(subscriptions)]
    if not found:
        return
    more = [f"and {len(found) - _SHOWN_MAX} more"] if len(found) > _SHOWN_MAX else []
    count = "1 thing" if len(found) == 1 else f"{len(found)} things"
    lines = "\n  ".join([f"the hub would refuse {count} in the file; nothing was changed:", *found[:_SHOWN_MAX], *more])
    raise CommandFailed(lines, 2)


def _of_topics(topics: Mapping[str, Json]) -> Iterator[str]:
    for name, settings in topics.items():
        try:
            validate_topic(name)
        except TopicError as error:
            yield f"topic {name}: {error}"
        yield from (f"topic {name}: {problem}" for problem in _of_model(TopicSettings, settings))


def _of_subscriptions(subscriptions: Sequence[Json]) -> Iterator[str]:
    for one in subscriptions:
        found = [*_of_model(SubscriptionIn, one), *_of_values(one)]
        yield from (f"subscription {one['topic']} -> {one['callback']}: {problem}" for problem in found)


def _of_model(model: type[BaseModel], given: Json) -> Iterator[str]:
    try:
        model.model_validate(given)
    except ValidationError as refused:
        for error in refused.errors():
            place = ".".join(map(str, error["loc"]))
            if error["type"] != "extra_forbidden":
                yield f"{place}: {error['msg']}"
                continue
            close = get_close_matches(place, model.model_fields, 1)
            yield f"{place}: there is no such name{f'; did you mean {close[0]}?' if close else ''}"


def _of_values(one: Json) -> Iterator[str]:
    """Check rules outside the models: filters, and formats that need another option."""
    try:
        if isinstance(one.get("filter"), dict):
            compile_filter(one["filter"])
        check_format(one)
    except (FilterError, RecursionError) as error:
        yield f"filter: {error}"
    except Problem as problem:
        yield problem.detail
