"""Work on a body: on the event loop for a small one, in a thread beside it for a large one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["HERE_BYTES_MAX", "beside_loop_if_large"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
HERE_BYTES_MAX: Final = 256 * 1024
"""Work on a larger body would delay every other request for milliseconds."""


async def beside_loop_if_large(size_bytes: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what ``work`` returns for a body of this size, and raise what it raises."""
    if size_bytes > HERE_BYTES_MAX:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)
