"""The HTTP applications: publishing and the doors, which are built at once, round the routes, which come later."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.api.operating.ready_answer import ready_answer
from app.web.api.route.context import Context
from app.web.api.route.effect import WithoutEffect
from app.web.api.route.user_content import ended
from app.web.authentication import Authentication, Keyring
from app.web.late_routes import LateRoutes
from app.web.limits import MIB, FrontDoor, RequestIds, RequestLimits
from app.web.page_policy import PublishingPages, operations_policy, page_policy
from app.web.pages.sessions import Sessions
from app.web.problem import Problem, Problems
from app.web.publishing.envelope import is_publish
from app.web.publishing.inbound import Inbound
from app.web.publishing.inbound_path import is_inbound
from app.web.publishing.ingest import Ingest
from app.web.repeats import Repeats
from app.web.route_needs import RouteNeeds
from hub.acceptance import Hub
from hub.keys import Keys

__all__ = ["operations_application", "web_application"]


def web_application(
    context: Context, ingest: Ingest, inbound: Inbound, problems: Problems, request_ids: RequestIds, own_agent: str
) -> tuple[ASGIApp, LateRoutes]:
    """Return the whole application, within its request limits, and its routes, which are still to be loaded.

    ``own_agent`` is the User-Agent of our own deliveries.
    """
    settings = context.settings
    needs = keyring = None
    if settings.needs_keys:
        needs, keyring = RouteNeeds(), Keyring(Keys(context.database), Sessions(context.database))

    without_effect = WithoutEffect(context.registry)  # at once: the first scrape has its series

    def build() -> ASGIApp:
        from app.web.application import build_routes

        return build_routes(context, problems, fork, needs, keyring, without_effect)

    routes = _late_routes(build, context)
    repeats = Repeats(routes, context.database, _tell(context.hub))
    fork = _Fork(ingest, inbound, repeats, context.readiness.doubt)
    inside: ASGIApp = fork
    if needs is not None and keyring is not None:
        inside = Authentication(
            inside, keyring, needs, hub_is_open=settings.hub_access == "open", docs_are_open=settings.serves_docs
        )
    door = FrontDoor(
        routes.awaited_by(inside), problems=problems, limits=_limits(settings.event_bytes_max),
        request_ids=request_ids, pages=page_policy(settings, context.public_url), own_agent=own_agent.encode(),
    )  # fmt: skip
    return PublishingPages(door, settings.origins) if settings.origins else door, routes


def operations_application(context: Context, problems: Problems, request_ids: RequestIds) -> tuple[ASGIApp, LateRoutes]:
    """Return health and metrics alone, for a separate port, and their routes, which are still to be loaded. Every
    client of that port may read them without a key.
    """

    def build() -> ASGIApp:
        from app.web.api.operating.health import build_operations

        return build_operations(context, problems)

    routes = _late_routes(build, context)
    # No key is asked for here, so a page that was rebound to this address may not read the answers either.
    pages = operations_policy(context.settings, context.public_url)
    return FrontDoor(routes.awaited_by(routes), problems=problems, request_ids=request_ids, pages=pages), routes


def _limits(event_bytes_max: int) -> RequestLimits:
    return RequestLimits(events_bytes_max=event_bytes_max, batch_bytes_max=max(4 * MIB, event_bytes_max))


def _late_routes(build: Callable[[], ASGIApp], context: Context) -> LateRoutes:
    """Return routes that the process is not ready without, and what answers probes before they are there."""

    async def alive() -> Response:
        return ended(JSONResponse({"status": "ok"}))

    async def ready() -> Response:
        return ended(await ready_answer(context))

    routes = LateRoutes(build, {"/healthz": alive, "/readyz": ready})
    context.awaited.append(routes.there)
    return routes


def _tell(hub: Hub) -> Callable[[], None]:
    """Return what wakes the workers of this process: they looked before the commit of a joined transaction."""

    def tell() -> None:
        hub.on_publish()
        hub.wake()
        hub.wake_fetching()

    return tell


class _Fork:
    """Sends publishing to the ingest, webhooks to their doors, the rest to the routes. ``doubt`` is called if the
    database refused.
    """

    def __init__(self, ingest: Ingest, inbound: Inbound, api: ASGIApp, doubt: Callable[[], None]) -> None:
        self._ingest = ingest
        self._inbound = inbound
        self._api = api
        self._doubt = doubt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app_of(scope)(scope, receive, send)
        except Problem as problem:
            if problem.slug == "database-unavailable":
                self._doubt()
            raise

    def _app_of(self, scope: Scope) -> ASGIApp:
        if is_publish(scope):
            return self._ingest
        return self._inbound if is_inbound(scope) else self._api
