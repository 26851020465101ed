"""Event log: one line for each publish, each delivery and each failed attempt, for a developer at a terminal (FT-17).

On by default in development (``HOOKWIRE_LOG_EVENTS``). A line names the callback's host only, because a path may hold a
secret. Above a number of lines per second the rest is counted, so a flood costs the service little.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from egress.client import Outbound, Request, Response
from egress.failure import OutboundError
from event.event import Draft
from event.identity import format_event_id
from hub.publish import Accepted
from runtime.observable import Observable

__all__ = ["EventLog", "WatchedOutbound"]

_log = structlog.get_logger(__name__)
_LINES_PER_SECOND_MAX = 20
_WINDOW_SECONDS = 1.0


class EventLog:
    """Writes the lines. Publishes, deliveries and failures each have a budget of their own.

    ``stored`` carries the events that this process commits.
    """

    def __init__(
        self, incarnation: str, stored: Observable[[Draft, Accepted]], lines_per_second_max: int = _LINES_PER_SECOND_MAX
    ) -> None:
        self._incarnation = incarnation
        stored.connect(self.stored)
        self._published = _Budget("published", lines_per_second_max)
        self._delivered = _Budget("delivered", lines_per_second_max)
        self._failed = _Budget("not_delivered", lines_per_second_max)

    def stored(self, draft: Draft, accepted: Accepted) -> None:
        """Log an event that this process has committed."""
        if self._published.admits():
            identity = format_event_id(self._incarnation, accepted.id)
            _log.info("published", topic=accepted.topic, event_id=identity, key=accepted.key, bytes=len(draft.payload))

    def answered(self, request: Request, response: Response) -> None:
        """Log an attempt that was answered."""
        seconds = round(response.total_seconds, 3)
        if 200 <= response.status < 300:
            if self._delivered.admits():
                _log.info("delivered", **_names(request), status=response.status, seconds=seconds)
        elif self._failed.admits():
            _log.warning("not_delivered", **_names(request), status=response.status, seconds=seconds)

    def unanswered(self, request: Request, error: OutboundError, seconds: float) -> None:
        """Log an attempt that brought no answer."""
        if self._failed.admits():
            _log.warning(
                "not_delivered", **_names(request), outcome=error.kind, detail=error.detail, seconds=round(seconds, 3)
            )


class WatchedOutbound:
    """An outbound client whose attempts are logged."""

    def __init__(self, outbound: Outbound, log: EventLog) -> None:
        self._outbound = outbound
        self._log = log

    async def send(self, request: Request) -> Response:
        """Make one attempt and log its outcome; raise as the client does."""
        began = time.monotonic()
        try:
            response = await self._outbound.send(request)
        except OutboundError as error:
            self._log.unanswered(request, error, time.monotonic() - began)
            raise
        self._log.answered(request, response)
        return response

    async def aclose(self) -> None:
        """Close the client's connections."""
        await self._outbound.aclose()


class _Budget:
    """Limits the lines of one kind per second. It counts further lines and logs their number once."""

    def __init__(self, kind: str, lines_max: int) -> None:
        self._kind = kind
        self._lines_max = lines_max
        self._began = 0.0
        self._lines = 0
        self._left_out = 0

    def admits(self) -> bool:
        """Return whether one more line may be written now."""
        now = time.monotonic()
        if now - self._began >= _WINDOW_SECONDS:
            self._began, self._lines = now, 0
        if self._lines < self._lines_max:
            self._lines += 1
            return True
        if not self._left_out:
            asyncio.get_running_loop().call_later(_WINDOW_SECONDS, self._tell)
        self._left_out += 1
        return False

    def _tell(self) -> None:
        _log.info(f"{self._kind}_more", lines_left_out=self._left_out)
        self._left_out = 0


def _names(request: Request) -> dict[str, str | None]:
    """Return the event's id and the callback's origin."""
    headers = {name.lower(): value for name, value in request.headers}
    target = request.target
    return {"event_id": headers.get("webhook-id"), "to": f"{target.scheme}://{target.host_header}"}
