"""A long poll: what ends it, and how long it rests where a wait ended in vain."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.web.api.route import long_poll as module
from app.web.api.route.long_poll import long_poll


class Connected:
    """A client that stays."""

    async def is_disconnected(self) -> bool:
        return False


async def rests_until_found(
    monkeypatch: pytest.MonkeyPatch, fetched: list[list[int]]
) -> tuple[Sequence[int], list[float]]:
    """What a long poll finds that fetches these lists one after the other, and its rests in seconds."""
    rests: list[float] = []

    async def rest(_until: asyncio.Event, seconds: float) -> None:
        rests.append(seconds)

    async def fetch() -> list[int]:
        return fetched.pop(0)

    @asynccontextmanager
    async def wait() -> AsyncIterator[bool]:
        yield bool(fetched)

    monkeypatch.setattr(module, "pause", rest)
    request: Any = Connected()
    return await long_poll(request, asyncio.Event(), fetch, wait), rests


async def test_whoever_was_too_slow_once_waits_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several workers that wake up for one item, the others shall not miss the next one."""
    assert await rests_until_found(monkeypatch, [[], [], [1]]) == ([1], [0.0])


async def test_what_is_withheld_is_asked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    found, rests = await rests_until_found(monkeypatch, [[]] * 9)
    assert (found, rests) == ([], [0.0, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.2, 0.2])
