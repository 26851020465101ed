"""Rates and times: asked from the hub, and printed as lines or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.entry import say
from app.cli.moment import moment, shown_moment
from runtime.duration_histogram import duration_words

__all__ = ["Since", "Until", "attempt_lines", "print_stats", "topic_lines", "work_lines"]

Since = Annotated[str | None, typer.Option("--since", help="From this moment or span back on, as 2h. Default: 1h.")]
Until = Annotated[str | None, typer.Option("--until", help="Up to this moment, or span back. Default: now.")]


async def print_stats(
    path: str, lines: Callable[[Mapping[str, Any]], Iterator[str]], asked: Mapping[str, str | None], url: str | None,
    config: Path | None, *, as_json: bool,
) -> int:  # fmt: skip
    """Print the answer at ``path`` for a span, by ``lines`` or as JSON; return the exit code."""
    from app.cli.hub_client import get, hub_of

    named = {**asked} | {name: moment(f"--{name}", asked[name]) for name in ("since", "until")}
    params = {name: value for name, value in named.items() if value is not None}
    found = await get(f"{hub_of(url, config)}{path}", params=params)
    for line in [json.dumps(found)] if as_json else lines(found):
        say(line)
    return 0


def attempt_lines(stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer of ``GET /subscriptions/{id}/stats``."""
    yield f"{_span(stats)}, counted up to {shown_moment(stats['as_of'])}"
    yield f"attempts   {stats['attempts']:,}, {stats['attempts_per_second']:.3g} a second"
    yield f"delivered  {stats['delivered']:,}{_share(stats['success'])}"
    yield f"attempt    {_times(stats['attempt_seconds'])}"
    yield f"delivery   {_times(stats['age_seconds'])} after acceptance"
    gone = stats["drained_seconds"]
    yield _waiting(stats) + (f"; at this rate gone in {duration_words(gone)}" if gone else "")


def work_lines(stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer of ``GET /queues/{queue}/stats`` and its like."""
    yield _span(stats)
    if stats["kept"]:
        more = "; only the latest 20,000 are counted" if stats["more"] else ""
        yield f"ended      {stats['ended']:,}, {stats['ended_per_second']:.3g} a second{more}"
        yield f"done       {stats['done']:,}{_share(stats['success'])}"
        yield f"run        {_times(stats['run_seconds'])}"
        yield f"age        {_times(stats['age_seconds'])} from the making to the end"
    else:
        yield "done       not counted: no archive is kept"
    yield f"given up   {stats['failed']:,}"
    yield _waiting(stats)


def topic_lines(stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer of ``GET /topics/{topic}/stats``."""
    yield f"{_span(stats)}, counted up to {shown_moment(stats['as_of'])}"
    yield f"accepted   {stats['accepted']:,}, {stats['accepted_per_second']:.3g} a second"
    for one in stats["sinks"]:
        dead = f", {one['dead']:,} given up" if one["dead"] else ""
        yield f"{one['sink']:<9}  {one['sent']:,} of {one['owed']:,} sent{dead}"


def _span(stats: Mapping[str, Any]) -> str:
    return f"{shown_moment(stats['since'])} to {shown_moment(stats['until'])}"


def _share(share: float | None) -> str:
    return f", {share:.1%}" if share is not None else ""


def _waiting(stats: Mapping[str, Any]) -> str:
    oldest = stats["oldest_seconds"]
    return f"waiting    {stats['waiting']:,}" + (f", the oldest for {duration_words(oldest)}" if oldest else "")


def _times(quantiles: Mapping[str, float | None]) -> str:
    """Return the three times in words; a dash where nothing was timed."""
    return "  ".join(f"{name} {'-' if value is None else duration_words(value)}" for name, value in quantiles.items())
