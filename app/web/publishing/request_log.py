"""One wide log line for each accepted publish of the sample; docs/reference/log-lines.md names its fields."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog
from starlette.types import Scope

from app.web.scopes import key_id_in
from event.identity import format_event_id
from hub.publish import Accepted
from runtime.sample import EventSample

__all__ = ["RequestLog"]

_log = structlog.get_logger(__name__)


class RequestLog:
    """Writes the lines. ``sample`` chooses by the first event of a request; ``incarnation`` is the installation's."""

    def __init__(self, sample: EventSample, incarnation: str) -> None:
        self._sample = sample
        self._incarnation = incarnation

    def write(self, scope: Scope, started: float, body_bytes: int, accepted: Sequence[Accepted], refused: int) -> None:
        """Log a publish that was stored. ``started`` is monotonic, ``refused`` counts lines of a partial batch."""
        first = accepted[0]
        if not self._sample.takes(first.id):
            return
        state = scope.get("state", {})
        _log.info(
            "request_accepted",
            request_id=state.get("request_id"),
            event_id=format_event_id(self._incarnation, first.id),
            topic=first.topic,
            events=len(accepted),
            events_refused=refused,
            replayed=all(one.replayed for one in accepted),
            keyed=first.key is not None,
            body_bytes=body_bytes,
            api_key=key_id_in(scope),
            client=scope["client"][0] if scope.get("client") else None,
            total_seconds=round(time.monotonic() - started, 6),
        )
