"""RouteNeeds: the declaration (:mod:`app.web.scopes`) of the route that will take a request.

Default deny: a request that no route takes needs ``admin``, or ``read`` to look; a route without a declaration ends the
start-up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from app.web.ingest import is_publish, need_of_publish
from app.web.scopes import Declaration, Need, declaration_of, default_need

__all__ = ["RouteNeeds"]


class RouteNeeds:
    """The declarations of an application's routes; raises ``RuntimeError`` for a route that has none."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = [(route, _declared(route)) for route in routes]

    def of(self, scope: Scope) -> Need:
        """Return what this request needs. A HEAD needs what its GET needs."""
        if is_publish(scope):
            return need_of_publish(scope)
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        for route, declaration in self._routes:
            match, found = route.matches(asked)
            if match is Match.FULL:
                return _resolved(declaration, {**scope, **found})
        return default_need(scope["method"])


def _resolved(declaration: Declaration, scope: Scope) -> Need:
    need = declaration if isinstance(declaration, Need) else declaration(scope)
    if need.reach in ("all", "route"):
        return need
    return dataclasses.replace(need, name=scope["path_params"][need.parameter or need.reach])


def _declared(route: BaseRoute) -> Declaration:
    declaration = declaration_of(getattr(route, "endpoint", None))
    if declaration is None:
        detail = "declares no scope; write @needs(...) or @open_to_all below its @router line (app/web/scopes.py)"
        raise RuntimeError(f"the route {getattr(route, 'path', route)!r} {detail}")
    return declaration
