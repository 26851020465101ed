"""Scopes: the rights of an API key that a route declares beside its path.

::

    publish    events, to topics of the key           payloads   with read: contents are shown
    subscribe  subscriptions, pull                     operate    retry, give up, purge, replay, pause, cancel
    enqueue    messages, jobs                          work       receive, claim, settle; acts of people on jobs
    call       services                                admin      everything

    @router.get("/{queue}")
    @needs("read", reach="queue")
    async def get(...)

Every route has a declaration, else the application is not built (:mod:`app.web.route_needs`).
``tests/app/web/test_scopes.py`` holds the whole table, route by route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from starlette.types import Scope

from hub.keys import Grant
from hub.keys import Scope as KeyScope

__all__ = [
    "OPEN",
    "Declaration",
    "Need",
    "Reach",
    "declaration_of",
    "default_need",
    "grant_in",
    "key_id_in",
    "needs",
    "needs_by",
    "open_to_all",
]

Reach = Literal["all", "topic", "queue", "service", "route"]
_REACHES: Final[Mapping[str, Callable[[Grant, str], bool]]] = {
    "topic": Grant.reaches, "queue": Grant.reaches_queue, "service": Grant.reaches_service,
}  # fmt: skip
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Need:
    """The need of a route: one of ``scopes``, and ``payloads`` too if set. Without scopes no key is needed.

    ``reach`` says which patterns of the key are compared, and with which value::

        all             a key for some topics only is refused
        topic, queue, service   ``name``, the path's parameter of that name or of the name ``parameter``
        route           the route compares its own data (``require_topic``, ``may_reach_queue``, ...)

    ``instead``: a sentence for a key that is refused for its topics: why, and what it may use.

    ``websub``: where HOOKWIRE_HUB_ACCESS is open, no key is needed. ``docs``: where the docs page is on, neither.
    """

    scopes: Sequence[KeyScope]
    payloads: bool = False
    reach: Reach = "all"
    websub: bool = False
    docs: bool = False
    parameter: str | None = None
    name: str | None = None
    instead: str = ""

    def missing(self, grant: Grant) -> Sequence[KeyScope]:
        """Return the scopes of which the key has none; () when it has enough."""
        if not grant.has(*self.scopes):
            return self.scopes
        return ("payloads",) if self.payloads and not grant.has("payloads") else ()

    def is_reached_by(self, grant: Grant) -> bool:
        """Return whether the patterns of the key include this request."""
        if self.reach == "all":
            return grant.topics is None
        return self.reach == "route" or _REACHES[self.reach](grant, self.name or "")

    def alternatives(self) -> Sequence[Sequence[KeyScope]]:
        """Return the alternative sets of scopes, as OpenAPI's security requirements."""
        return [[scope, "payloads"] if self.payloads else [scope] for scope in self.scopes]


Declaration = Need | Callable[[Scope], Need]
OPEN: Final = Need(())


def needs(
    *scopes: KeyScope,
    payloads: bool = False,
    reach: Reach = "all",
    websub: bool = False,
    docs: bool = False,
    parameter: str | None = None,
    instead: str = "",
) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the need of the decorated route; write it below ``@router.get(...)``."""
    return _declare(
        Need(scopes, payloads=payloads, reach=reach, websub=websub, docs=docs, parameter=parameter, instead=instead)
    )


def needs_by(find: Callable[[Scope], Need]) -> Callable[[_Endpoint], _Endpoint]:
    """Declare a need that depends on more than path and method; ``find`` sees ``path_params`` as the route will."""
    return _declare(find)


def open_to_all(endpoint: _Endpoint) -> _Endpoint:
    """Declare that no key is needed."""
    return _declare(OPEN)(endpoint)


def declaration_of(endpoint: object) -> Declaration | None:
    """Return the declaration of an endpoint."""
    found: Declaration | None = getattr(endpoint, "declared_need", None)
    return found


def default_need(method: str) -> Need:
    """Return the need of a request that no route takes: a client without a key does not learn that no route exists."""
    return Need(("read",) if method in ("GET", "HEAD") else ("admin",))


def _declare(declaration: Declaration) -> Callable[[_Endpoint], _Endpoint]:
    def declare(endpoint: _Endpoint) -> _Endpoint:
        endpoint.declared_need = declaration  # type: ignore[attr-defined]  # functions have a dictionary
        return endpoint

    return declare


def grant_in(scope: Scope) -> Grant | None:
    """Return the rights of an authenticated request's key; None without authentication."""
    grant: Grant | None = scope.get("state", {}).get("grant")
    return grant


def key_id_in(scope: Scope) -> str | None:
    """Return the id of an authenticated request's key; None without authentication."""
    grant = grant_in(scope)
    return grant.key_id if grant is not None else None
