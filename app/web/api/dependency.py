"""In: the context as a parameter of a route.

It stands apart from the context, which the start needs before it has the web framework.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from app.web.api.route.context import Context, context_of

__all__ = ["In"]

In = Annotated[Context, Depends(context_of)]
