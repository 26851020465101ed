"""Sync plan: the changes that make a hub match a file. Pure.

A subscription of the file and one of the hub belong together if topic and callback are the same. Only options that the
file names are compared and changed. A secret is used only for a new subscription. Of its own headers only the names are
compared, because the hub shows no values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.cli.failure import CommandFailed
from event.topic import TopicError, validate_pattern

__all__ = ["SyncStep", "plan", "read_wanted", "summary"]

Json = Mapping[str, Any]
_COUNTED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SyncStep:
    """One request; ``differences`` are (name, before, after). ``owed``: open deliveries that an end gives up."""

    action: Literal["make", "change", "end"]
    what: Literal["topic", "subscription"]
    name: str
    path: str
    body: Json = field(default_factory=dict)
    differences: Sequence[tuple[str, Any, Any]] = ()
    owed: int = 0

    @property
    def method(self) -> str:
        """Return the HTTP method of the request."""
        if self.what == "topic":
            return "PUT"
        return {"make": "POST", "change": "PATCH", "end": "DELETE"}[self.action]

    def lines(self) -> list[str]:
        """Return the step as lines for a person."""
        sign = {"make": "+", "change": "~", "end": "-"}[self.action]
        owed = f" ({_owed(self.owed, is_least=self.owed >= _COUNTED_MAX)})" if self.owed else ""
        return [f"{sign} {self.what} {self.name}{owed}"] + [
            f"    {name}: {json.dumps(before)} -> {json.dumps(after)}" for name, before, after in self.differences
        ]


def _owed(count: int, *, is_least: bool) -> str:
    return f"{'at least ' if is_least else ''}{count:,} open {'delivery' if count == 1 else 'deliveries'}"


def summary(steps: Sequence[SyncStep], *, is_done: bool) -> str | None:
    """Return one sentence about the deliveries that ending subscriptions gives up; None if no subscription ends."""
    ended = [step for step in steps if step.action == "end"]
    if not ended:
        return None
    end, become = ("ended", "became") if is_done else ("would end", "would become")
    text = f"{len(ended):,} subscription{'s' if len(ended) > 1 else ''} {end}"
    count = sum(step.owed for step in ended)
    if not count:
        return text
    owed = _owed(count, is_least=any(step.owed >= _COUNTED_MAX for step in ended))
    return f"{text}; {owed} {become} {'a dead letter' if count == 1 else 'dead letters'}"


def read_wanted(document: Json) -> tuple[dict[str, Json], list[Json]]:
    """Return topics by name, and subscriptions, of a file; raise ``CommandFailed`` for invalid contents."""
    unknown = document.keys() - {"topics", "subscriptions"}
    if unknown:
        raise CommandFailed(f"the file holds {', '.join(sorted(unknown))}; it may hold topics and subscriptions", 2)
    topics, subscriptions = document.get("topics", {}), document.get("subscriptions", [])
    well_formed = isinstance(topics, dict) and all(isinstance(one, dict) for one in topics.values())
    if not well_formed or not isinstance(subscriptions, list):
        raise CommandFailed("topics are tables by name, subscriptions a list of tables", 2)
    wanted: dict[tuple[str, str], Json] = {}
    for one in map(_read_subscription, subscriptions):
        if _identity(one) in wanted:
            raise CommandFailed(f"the subscription {_named(one)} is in the file twice", 2)
        wanted[_identity(one)] = one
    return {name: _read_topic(one) for name, one in topics.items()}, list(wanted.values())


def _read_topic(one: Json) -> Json:
    """Return the topic with its sinks in the hub's order. Another order would count as a difference each time."""
    sinks = one.get("sinks")
    if not isinstance(sinks, list) or not all(isinstance(sink, str) for sink in sinks):
        return one
    return {**one, "sinks": sorted(set(sinks))}


def _read_subscription(one: Any) -> Json:
    """Return the subscription with its pattern in the hub's spelling. Another spelling would count as another
    subscription each time.
    """
    if not isinstance(one, dict) or not isinstance(one.get("topic"), str) or not isinstance(one.get("callback"), str):
        raise CommandFailed("each subscription has a topic and a callback", 2)
    if not isinstance(one.get("headers", {}), dict):
        raise CommandFailed(f"the subscription {_named(one)}: headers are a table of texts by name", 2)
    try:
        return {**one, "topic": validate_pattern(one["topic"])}
    except TopicError as error:
        raise CommandFailed(f"the subscription {_named(one)}: {error}", 2) from None


def plan(
    wanted_topics: Mapping[str, Json],
    wanted_subscriptions: Sequence[Json],
    topics: Mapping[str, Json | None],
    subscriptions: Sequence[Json],
    *,
    prune: bool,
) -> list[SyncStep]:
    """Return the steps, topics first. ``topics`` are the hub's settings of the named topics, None for a missing topic.

    ``prune``: API subscriptions of the hub that the file does not name are ended.
    """
    steps = [step for name, wanted in wanted_topics.items() if (step := _topic(name, wanted, topics.get(name)))]
    present = {_identity(one): one for one in subscriptions if one["protocol"] == "webhook"}
    for wanted in wanted_subscriptions:
        step = _subscription(wanted, present.pop(_identity(wanted), None))
        if step is not None:
            steps.append(step)
    if prune:
        steps += [
            SyncStep("end", "subscription", _named(one), f"/subscriptions/{one['id']}", owed=one.get("waiting", 0))
            for one in present.values()
        ]
    return steps


def _topic(name: str, wanted: Json, present: Json | None) -> SyncStep | None:
    path = f"/topics/{name}/settings"
    if present is None:
        return SyncStep("make", "topic", name, path, wanted)
    differences = _differences(wanted, present)
    kept = {key: present[key] for key in present if key not in ("topic", "created_at", "updated_at")}
    return SyncStep("change", "topic", name, path, {**kept, **wanted}, differences) if differences else None


def _subscription(wanted: Json, present: Json | None) -> SyncStep | None:
    if present is None:
        return SyncStep("make", "subscription", _named(wanted), "/subscriptions", wanted)
    comparable = {name: value for name, value in wanted.items() if name not in ("secret", "headers")}
    differences = _differences(comparable, present)
    if "headers" in wanted:
        before, after = present["header_names"], sorted(name.lower() for name in wanted["headers"]) or None
        differences += [("headers", before, after)] if before != after else []
    if not differences:
        return None
    body = {name: wanted[name] for name, _, _ in differences}
    return SyncStep("change", "subscription", _named(wanted), f"/subscriptions/{present['id']}", body, differences)


def _differences(wanted: Json, present: Json) -> list[tuple[str, Any, Any]]:
    return [
        (name, present.get(name), value) for name, value in wanted.items() if present.get(name) != _shown(name, value)
    ]


def _shown(name: str, value: Any) -> Any:
    """Return the option's value as the hub shows it: null for an empty filter."""
    return None if name == "filter" and value == {} else value


def _identity(one: Json) -> tuple[str, str]:
    return one["topic"], one["callback"]


def _named(one: Json) -> str:
    return f"{one['topic']} -> {one['callback']}"
