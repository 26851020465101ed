"""Lists and single objects of a hub's API, as the commands print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.entry import say
from app.cli.lines.narrow import Narrow

__all__ = ["empty_words", "listed", "print_list", "print_one"]


async def listed(
    path: str, asked: Mapping[str, str | None], limit: int | None, url: str | None, config: Path | None
) -> list[Any]:
    """Return the items of a list, at most ``limit`` if it is given. Parameters that are None are left out."""
    from app.cli.hub_client import get_all, hub_of

    params = {name: value for name, value in asked.items() if value is not None}
    return await get_all(f"{hub_of(url, config)}{path}", params, limit)


def empty_words(asked: Mapping[str, str | None], nothing: str, no_match: str) -> str:
    """Return the sentence for an empty list: ``nothing`` is said only of a list without a filter."""
    return nothing if all(value is None for value in asked.values()) else no_match


def print_list(
    found: Sequence[Any], heads: Sequence[str], row_of: Callable[[Any], Sequence[str]], folds: Collection[str],
    empty: str, *, as_json: bool, narrow: Narrow | None = None,
) -> None:  # fmt: skip
    """Print items as JSON, as a table with a row for each, or the sentence ``empty`` if there are none."""
    from app.cli.table import show

    if as_json:
        say(json.dumps(found))
    elif found:
        show(heads, [row_of(one) for one in found], folds, narrow=narrow)
    else:
        say(empty)


async def print_one(path: str, url: str | None, config: Path | None, *, as_json: bool) -> int:
    """Print one object as JSON, with ``as_json`` on one line; return the exit code."""
    from app.cli.hub_client import get, hub_of

    found = await get(f"{hub_of(url, config)}{path}")
    say(json.dumps(found, indent=None if as_json else 2))
    return 0
