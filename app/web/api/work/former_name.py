"""FormerName: routes that answer below a former path, too, outside OpenAPI."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

__all__ = ["answer_below"]


def answer_below(former: str, router: APIRouter, path: str) -> None:
    """Let the router's routes below ``path`` answer below ``former`` as well."""
    for route in [found for found in router.routes if isinstance(found, APIRoute)]:
        if route.path == path or route.path.startswith(f"{path}/"):
            router.add_api_route(
                former + route.path.removeprefix(path), route.endpoint, methods=sorted(route.methods or ()),
                status_code=route.status_code, response_model=route.response_model, include_in_schema=False,
            )  # fmt: skip
