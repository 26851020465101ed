"""RouteNeeds: the declaration (:mod:`app.web.scopes`) of the route that will take a request.

Default deny: a request that no route takes needs ``admin``, or ``read`` for a GET. The start fails if a route has no
declaration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from app.web.publishing.envelope import is_publish, need_of_publish
from app.web.publishing.inbound_path import is_inbound
from app.web.scopes import OPEN, Declaration, Need, declaration_of, default_need

__all__ = ["RouteNeeds"]


class RouteNeeds:
    """The declarations of an application's routes. They may be declared later: publishing takes none of them."""

    def __init__(self, routes: Sequence[BaseRoute] | None = None) -> None:
        self._routes: Sequence[tuple[Route, Declaration]] | None = None
        if routes is not None:
            self.declare(routes)

    def declare(self, routes: Sequence[BaseRoute]) -> None:
        """Take these routes; raise ``RuntimeError`` for a route that has no declaration."""
        self._routes = [(_route(route), _declared(route)) for route in routes]

    def of(self, scope: Scope) -> Need:
        """Return the need of this request. A HEAD needs the same as its GET.

        Raise ``RuntimeError`` for a request that may be one of a route while none is declared.
        """
        if is_publish(scope):
            return need_of_publish(scope)
        if is_inbound(scope):
            return OPEN
        if self._routes is None:
            raise RuntimeError("the routes have not been declared, so nobody knows what this request needs")
        method, path = scope["method"], scope["path"]
        asked = "GET" if method == "HEAD" else method
        for route, declaration in self._routes:
            # Not route.matches(), which takes ten times as long; a test holds that both find the same.
            match = route.path_regex.match(path)
            if match is not None and asked in (route.methods or ()):
                return _resolved(declaration, scope, match.groupdict())
        return default_need(method)


def _resolved(declaration: Declaration, scope: Scope, parameters: Mapping[str, str]) -> Need:
    need = declaration if isinstance(declaration, Need) else declaration({**scope, "path_params": parameters})
    if need.reach in ("all", "route"):
        return need
    return dataclasses.replace(need, name=parameters[need.parameter or need.reach])


def _route(route: BaseRoute) -> Route:
    if not isinstance(route, Route):
        raise TypeError(f"{route!r} is no plain route, so its need cannot be declared")
    return route


def _declared(route: BaseRoute) -> Declaration:
    declaration = declaration_of(getattr(route, "endpoint", None))
    if declaration is None:
        detail = "declares no scope; write @needs(...) or @open_to_all below its @router line (app/web/scopes.py)"
        raise RuntimeError(f"the route {getattr(route, 'path', route)!r} {detail}")
    return declaration
