"""The ending of a handler, its result or its exception, as a value, so that no handler ends its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Ending", "ending_of", "reason_of"]

_CANCELLED_SECONDS: Final = 5.0
_CHARACTERS_MAX: Final = 2000


@dataclass(frozen=True, slots=True)
class Ending:
    """The result or the exception of a handler.

    ``was_cancelled``: it ended because its worker had cancelled it. ``is_left``: it was cancelled and still runs.
    """

    result: Any = None
    error: BaseException | None = None
    was_cancelled: bool = False
    is_left: bool = False


async def ending_of(handler: Awaitable[Any]) -> Ending:
    """Run a handler in a task of its own. A cancellation of this call is the worker's, and cancels the handler.

    The handler's own CancelledError is an error like any other. SystemExit does not reach the event loop.
    """
    task = asyncio.ensure_future(_caught(handler))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
    await asyncio.wait([task], timeout=_CANCELLED_SECONDS)
    if not task.done():
        return Ending(is_left=True)
    error = asyncio.CancelledError() if task.cancelled() else task.result().error
    return Ending(error=error, was_cancelled=True) if isinstance(error, asyncio.CancelledError) else task.result()


def reason_of(error: BaseException) -> str:
    """Return the exception's text, or its type's name where the text is empty or cannot be made.

    Both together if it is no ``Exception``. Characters that PostgreSQL cannot store become ``?``.
    """
    name = type(error).__name__
    try:
        text = str(error)[:_CHARACTERS_MAX]
    except BaseException:  # noqa: BLE001 - the text of a user's exception may raise anything
        text = ""
    if text and not isinstance(error, Exception):
        text = f"{name}: {text}"
    return (text or name).replace("\0", "?").encode("utf-8", "replace").decode()


async def _caught(handler: Awaitable[Any]) -> Ending:
    try:
        return Ending(await handler)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything
        return Ending(error=error)
