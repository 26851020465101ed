"""In: the context as a parameter of a route.

It stands apart from the context, which the start needs before it has the web framework.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from app.web.api.route.context import Context, context_of

__all__ = ["In"]


async def _context_in(request: Request) -> Context:
    """Return the context. FastAPI would call a plain function in a thread, which costs as much as some routes."""
    return context_of(request)


In = Annotated[Context, Depends(_context_in)]
