"""POST /in/{source}: webhooks that others send, a plain ASGI application beside the ingest.

::

    places for the address and the door --> body --> signature --> rate of the door --> handshake or event --> COMMIT
       | none: 503                           |          | wrong: 403, as for an unknown door   | too many: 429
       v                                     v          v                                      v

Before the signature is right, only bytes and requests at once are bounded. The rate counts verified requests, so what
strangers send takes nothing from a sender. Every answer but 2xx lets a sender repeat, where it does at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import structlog
from prometheus_client import CollectorRegistry, Counter
from starlette.types import Receive, Scope, Send

from app.web.problem import Problem
from app.web.publishing.inbound_path import door_name_of
from app.web.publishing.inbound_places import Places, Rates
from app.web.publishing.publish_problem import PUBLISH_ERRORS, admit_topic, problem_of_publish
from app.web.publishing.request_log import RequestLog
from app.web.publishing.whole_body import read_whole_body
from db.errors import DatabaseError
from db.secret_box import SecretBoxError
from event.identity import format_event_id
from hub.inbound.door import NOBODY, EventRefused, HandshakeAnswer, InboundEvent, InboundSource
from hub.inbound.known_doors import KnownDoors
from hub.inbound.latest import InboundRequest, LatestRequests
from hub.inbound.scheme import SignatureWrong
from hub.publish import Accepted, Publisher
from hub.topics import Topics
from runtime.large_body import beside_loop_if_large
from runtime.sample import EventSample

__all__ = ["Inbound"]

_log = structlog.get_logger(__name__)
_JSON = json.JSONEncoder(separators=(",", ":"))


class Inbound:
    """The ASGI application. ``incarnation`` is the installation's."""

    def __init__(
        self, publisher: Publisher, topics: Topics, doors: KnownDoors, latest: LatestRequests, incarnation: str,
        log_sample: EventSample, registry: CollectorRegistry,
    ) -> None:  # fmt: skip
        self._publisher = publisher
        self._topics = topics
        self._doors = doors
        self._latest = latest
        self._incarnation = incarnation
        self._request_log = RequestLog(log_sample, incarnation)
        self._places = Places()
        self._rates = Rates()
        self._unreadable: set[str] = set()
        self._requests = Counter(
            "hookwire_inbound_requests_total", "Requests at the doors of inbound sources, by outcome.",
            ["source", "outcome"], registry=registry,
        )  # fmt: skip
        self._headers_left_out = Counter(
            "hookwire_inbound_headers_left_out_total", "Headers that events of inbound sources lack, by reason.",
            ["source", "reason"], registry=registry,
        )  # fmt: skip
        self._counts: dict[tuple[str, str], Counter] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raises :class:`Problem` for everything that is refused."""
        started = time.monotonic()
        name = door_name_of(scope)
        address = scope["client"][0] if scope.get("client") else ""
        with self._places.take(name, address) as place:
            headers = _headers(scope)
            body = await read_whole_body(receive, place.add)
            found = await self._find(name)
            door = found or NOBODY
            try:
                await beside_loop_if_large(len(body), door.verify, headers, body, time.time())
            except SignatureWrong as wrong:
                self._refuse(found, address, body, wrong.reason, str(wrong), None)
                # In the words for an unknown door: who cannot sign does not learn which doors exist.
                raise Problem("signature-refused") from None
        if not self._rates.admits(door.name, door.rate_per_minute):
            self._refuse(door, address, body, "too_many", "more than rate_per_minute", None)
            raise Problem("too-many-requests", "This source sends more in a minute than its rate.")
        await self._take(door, headers, body, address, started, scope, send)

    async def _find(self, name: str) -> InboundSource | None:
        """Return the door; raise ``Problem`` if the database or its secret cannot be read. A stranger may ask as often
        as a sender, so the log has one line for each such door.
        """
        try:
            found = await self._doors.find(name)
        except DatabaseError as error:
            raise Problem("database-unavailable") from error
        except SecretBoxError as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _log.error(
                    "inbound_secret_unreadable", source=name, error=str(error),
                    hint="add this key to HOOKWIRE_SECRET_KEYS, or give the source a new secret",
                )  # fmt: skip
            raise Problem("secret-unreadable") from error
        self._unreadable.discard(name)
        return found

    async def _take(
        self, door: InboundSource, headers: dict[str, list[bytes]], body: bytes, address: str, started: float,
        scope: Scope, send: Send,
    ) -> None:  # fmt: skip
        taken: HandshakeAnswer | InboundEvent | None = None
        try:
            taken = await beside_loop_if_large(len(body), door.take, headers, body)
            if isinstance(taken, HandshakeAnswer):
                self._keep(InboundRequest(source=door.name, outcome="accepted", address=address, size_bytes=len(body)))
                await _answer(send, b"text/plain; charset=utf-8", taken.text.encode())
                return
            accepted = await self._store(taken)
        except EventRefused as refused:
            self._refuse(door, address, body, refused.reason, str(refused), None)
            raise Problem(
                "bad-request", f"The request is signed, but it can be no event: {refused}", status=422
            ) from None
        except Problem as problem:
            identity = taken.delivery_id if isinstance(taken, InboundEvent) else None
            self._refuse(door, address, body, problem.slug, problem.detail, identity)
            raise
        self._keep(
            InboundRequest(
                source=door.name, outcome="accepted", address=address, size_bytes=len(body),
                delivery_id=taken.delivery_id, event_id=accepted.id, topic=accepted.topic,
                detail=self._left_out(door.name, taken),
            )
        )  # fmt: skip
        self._request_log.write(scope, started, len(body), [accepted], 0)
        event_id = format_event_id(self._incarnation, accepted.id)
        item = {"id": event_id, "topic": accepted.topic, "replayed": accepted.replayed}
        await _answer(send, b"application/json", _JSON.encode(item).encode() + b"\n")

    def _left_out(self, source: str, taken: InboundEvent) -> str | None:
        """Count the headers that the event lacks, and return a text that names them; None: it lacks none."""
        for _, reason in taken.left_out:
            self._headers_left_out.labels(source, reason).inc()
        named = ", ".join(f"{name} ({reason})" for name, reason in taken.left_out)
        return f"left out: {named}" if named else None

    async def _store(self, taken: InboundEvent) -> Accepted:
        draft = taken.draft
        try:
            await admit_topic(self._topics, draft.topic)
            named = draft.idempotency_key is not None
            (accepted,) = await self._publisher.publish([draft], taken.fingerprint if named else None)
        except PUBLISH_ERRORS as error:
            raise problem_of_publish(error) from error
        except DatabaseError as error:
            raise Problem("database-unavailable") from error
        return accepted

    def _keep(self, request: InboundRequest) -> None:
        self._count(request.source, request.outcome)
        self._latest.add(request)

    def _count(self, source: str, outcome: str) -> None:
        """Count a request; sources are those that exist."""
        count = self._counts.get((source, outcome))
        if count is None:
            count = self._counts[source, outcome] = self._requests.labels(source, outcome)
        count.inc()

    def _refuse(
        self, door: InboundSource | None, address: str, body: bytes, reason: str, detail: str, delivery_id: str | None
    ) -> None:
        if door is None:
            self._count("", "refused")
            return
        self._keep(
            InboundRequest(
                source=door.name, outcome="refused", address=address, size_bytes=len(body), reason=reason,
                detail=detail, body=body, delivery_id=delivery_id,
            )
        )  # fmt: skip


def _headers(scope: Scope) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    pairs: Sequence[tuple[bytes, bytes]] = scope["headers"]
    for name, value in pairs:
        found.setdefault(name.decode("latin-1"), []).append(value)
    return found


async def _answer(send: Send, content_type: bytes, body: bytes) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
