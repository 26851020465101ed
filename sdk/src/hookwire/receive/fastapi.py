"""A receiver for FastAPI and Starlette."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.routing import Route

from hookwire.receive.asgi import Receiver as AsgiReceiver

__all__ = ["Receiver"]


class Receiver(AsgiReceiver):
    """A receiver whose routes an application of FastAPI includes. For Starlette, use :meth:`route`."""

    def router(self, path: str) -> APIRouter:
        """Return a router that takes deliveries at this path, for an application to include."""
        router = APIRouter()
        router.routes.append(self.route(path))
        return router

    def route(self, path: str) -> Route:
        """Return a route of Starlette."""
        return Route(path, endpoint=self, include_in_schema=False)
