"""Lists and single objects of a hub's API, and the answers to acts, as the commands print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.entry import say

if TYPE_CHECKING:
    from app.cli.lines.narrow import Narrow

__all__ = ["listed", "print_done", "print_list", "print_listed", "print_one", "print_result"]


async def listed(
    path: str, asked: Mapping[str, str | None], limit: int | None, url: str | None, config: Path | None
) -> list[Any]:
    """Return the items of a list, at most ``limit`` if it is given. Parameters that are None are left out."""
    from app.cli.hub_client import get_all, hub_of

    params = {name: value for name, value in asked.items() if value is not None}
    return await get_all(f"{hub_of(url, config)}{path}", params, limit)


async def print_listed(
    path: str, asked: Mapping[str, str | None], limit: int | None, url: str | None, config: Path | None,
    heads: Sequence[str], row_of: Callable[[Any], Sequence[str]], folds: Collection[str], empty: str, *, as_json: bool,
    no_match: str | None = None, narrow: Narrow | None = None, fails: Callable[[list[Any]], bool] | None = None,
) -> int:  # fmt: skip
    """Print a list as :func:`print_list` does. Return the exit code, which is 1 where ``fails`` is true of the items.

    ``no_match`` is said instead of ``empty`` of a list with a filter.
    """
    found = await listed(path, asked, limit, url, config)
    is_filtered = any(value is not None for value in asked.values())
    words = no_match if is_filtered and no_match is not None else empty
    print_list(found, heads, row_of, folds, words, as_json=as_json, narrow=narrow)
    return int(fails is not None and fails(found))


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


async def print_one(
    path: str, url: str | None, config: Path | None, *, as_json: bool, show: Callable[[Any], None] | None = None,
    params: dict[str, str] | None = None,
) -> int:  # fmt: skip
    """Print one object: as JSON on one line, or by ``show``, or as indented JSON. Return the exit code."""
    from app.cli.hub_client import get, hub_of

    found = await get(f"{hub_of(url, config)}{path}", params=params)
    if show is not None and not as_json:
        show(found)
    else:
        say(json.dumps(found, indent=None if as_json else 2))
    return 0


async def print_done(
    path: str, asked: Mapping[str, Any] | None, words_of: Callable[[Any], str] | None, url: str | None,
    config: Path | None, *, as_json: bool, method: str = "POST", if_empty: Mapping[str, Any] | None = None,
    fails: Callable[[Any], bool] | None = None, deadline_seconds: float = 60.0,
    headers: Mapping[str, str] | None = None,
) -> int:  # fmt: skip
    """Send one request with a JSON body, and print its answer: as JSON on one line, or in words, or as indented JSON.

    ``if_empty`` stands for an answer without content. Return the exit code, which is 1 where ``fails`` is true of the
    answer.
    """
    from app.cli.hub_client import AS_JSON, answer_of, connected, hub_of, success_of

    address = f"{hub_of(url, config)}{path}"
    content, kind = (json.dumps(asked).encode("ascii"), AS_JSON) if asked is not None else (None, {})
    async with connected() as client:
        answer = await answer_of(client, method, address, content, {**kind, **(headers or {})}, deadline_seconds)
    is_empty = answer.is_success and not answer.content
    done = if_empty if is_empty and if_empty is not None else success_of(answer)
    if as_json:
        say(json.dumps(done))
    else:
        say(words_of(done) if words_of is not None else json.dumps(done, indent=2))
    return int(fails is not None and fails(done))


def print_result(done: Any, words: str, *, as_json: bool) -> None:
    """Print what a command has done: as JSON on one line, or in words."""
    say(json.dumps(done, default=lambda moment: moment.isoformat()) if as_json else words)
