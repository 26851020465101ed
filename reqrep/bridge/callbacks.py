"""Callbacks: workers that get each request as a POST, and whose 2xx body is the reply.

A subscription ``{"service", "callback"}`` makes one. The request is leased for as long as the POST may take. Any other
answer, or none, is a failed try: the request is due again after a growing pause, at another callback of the service if
there is one, until the service's ``tries_max``. 410 ends the subscription.

Every URL goes through the guarded client. What a subscription says, and its signing keys, come through the port
:class:`CallbackBook`, because they belong to another room.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from db.errors import DatabaseError, Refused
from db.pool import Database, Row
from egress.client import Outbound, OutboundError, ReadLimits, Request, Response
from egress.url import Target
from reqrep.bridge.receipt import RequestReceipt
from reqrep.bridge.requests import STORED, Requests

__all__ = ["Callback", "CallbackBook", "CallbackOptions", "Callbacks"]

_log = structlog.get_logger(__name__)
_AT_ONCE = 64
_AT_ONCE_EACH = 8
_LEASED_EACH = 4
_LEASE_MARGIN_SECONDS = 10.0
_PAUSE_SECONDS_MAX = 60.0
_UNASKED_SECONDS = 300.0
_SERVICES_MAX = 10_000
_GONE: Final = 410
_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Callback:
    """Where a subscription's requests are POSTed. ``target`` None: it may not be called, as ``refusal`` says.

    ``sign``: headers for a message id, a time and a body.
    """

    target: Target | None
    refusal: str
    timeout_seconds: float | None
    sign: Callable[[str, int, bytes], list[tuple[str, str]]]


class CallbackBook(Protocol):
    """The subscriptions of services, as the room that keeps subscriptions knows them."""

    async def open(self, wanted: Iterable[tuple[int, int]]) -> Mapping[int, Callback]:
        """Return callbacks by id for pairs of a subscription's id and version."""
        ...


@dataclass(frozen=True, slots=True)
class CallbackOptions:
    """``timeout_seconds``: of one POST, where the subscription has none. ``reply_bytes_max``: of a reply's body."""

    timeout_seconds: float
    reply_bytes_max: int


class Callbacks:
    """Lease requests of services that have callbacks, POST them, store the replies."""

    name = "service callbacks"

    def __init__(
        self, database: Database, requests: Requests, outbound: Outbound, book: CallbackBook, options: CallbackOptions,
        on_posted: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._database = database
        self._requests = requests
        self._outbound = outbound
        self._book = book
        self._options = options
        self._on_posted = on_posted
        self._in_flight: Counter[int] = Counter()
        self._services: set[str] = set()
        self._wake = asyncio.Event()
        self._stopping = False
        self._limits = ReadLimits(
            read_bytes_max=options.reply_bytes_max + _HEAD_BYTES, keep_bytes_max=options.reply_bytes_max
        )

    def requested(self, service: str) -> None:
        """A request of this service is waiting; most services have no callback, and cost no question."""
        if service in self._services:
            self._wake.set()

    def poll_now(self) -> None:
        """A service with a callback has a waiting request."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the POSTs in flight and lease nothing more."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped."""
        async with asyncio.TaskGroup() as posts:
            while not self._stopping:
                self._wake.clear()
                if not await self._lease(posts):
                    await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_UNASKED_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _lease(self, posts: asyncio.TaskGroup) -> bool:
        """Lease what there is room for and begin to POST it; return whether to ask again at once."""
        subscriptions = (_AT_ONCE - self._in_flight.total()) // _LEASED_EACH
        if subscriptions <= 0:
            return False
        full = [one for one, count in self._in_flight.items() if count >= _AT_ONCE_EACH]
        timeout = self._options.timeout_seconds
        try:
            rows = await self._database.fetch(
                "request.lease_for_callbacks", full, _LEASED_EACH, timeout, _LEASE_MARGIN_SECONDS, subscriptions
            )
            book = await self._book.open({(row["subscription_id"], row["version"]) for row in rows})
        except DatabaseError as error:
            _log.warning("service_callbacks_failed", error=str(error))
            await asyncio.sleep(0.5)
            return False
        for row in rows:
            self._in_flight[row["subscription_id"]] += 1
            posts.create_task(self._work(row, book.get(row["subscription_id"])), name="service callback")
            self._learn(row["service"])
        return bool(rows)

    def _learn(self, service: str) -> None:
        if len(self._services) >= _SERVICES_MAX:
            self._services.clear()
        self._services.add(service)

    async def _work(self, row: Row, callback: Callback | None) -> None:
        """POST one request and record what became of it; nothing of the database's errors passes."""
        try:
            await self._record(row, await self._post(row, callback))
        except DatabaseError as error:  # its lease ends, and it is given to a worker again
            _log.warning("service_callback_not_recorded", request=row["id"], error=str(error))
        finally:
            self._in_flight[row["subscription_id"]] -= 1
            self._in_flight += Counter()  # forgets those without any
            self._wake.set()

    async def _post(self, row: Row, callback: Callback | None) -> Response | str:
        """The answer, or why there is none."""
        if callback is None or callback.target is None:
            return callback.refusal if callback is not None else "the subscription has ended"
        message_id = f"req_{row['id']}"
        headers = callback.sign(message_id, int(time.time()), row["body"])
        headers += [
            ("hookwire-service", row["service"]), ("hookwire-request-id", row["id"]),
            ("hookwire-attempt", str(row["attempts"])),
        ]  # fmt: skip
        if row["content_type"] is not None:
            headers.append(("content-type", row["content_type"].encode().decode("latin-1")))
        deadline = callback.timeout_seconds or self._options.timeout_seconds
        try:
            return await self._outbound.send(
                Request("POST", callback.target, headers, row["body"], deadline, limits=self._limits)
            )
        except OutboundError as error:
            return error.detail

    async def _record(self, row: Row, answer: Response | str) -> None:
        receipt = RequestReceipt(row["id"], row["claim"])
        why = answer if isinstance(answer, str) else self._refusal(answer)
        if why is None and isinstance(answer, Response):
            content_type = next(iter(answer.values("content-type")), None)
            try:
                outcome = await self._requests.reply(receipt, answer.body, _as_text(content_type))
                self._on_posted("answered" if outcome == STORED else "stale")
                return
            except Refused as error:
                why = f"the callback's reply was refused: {error.message}"
        self._on_posted("failed")
        if isinstance(answer, Response) and answer.status == _GONE:
            await self._database.fetch(
                "subscription.end", row["subscription_id"], "gone", "the callback answered 410", row["version"]
            )
        pause = min(2.0 ** (row["attempts"] - 1), _PAUSE_SECONDS_MAX) * (0.8 + 0.4 * random.random())  # noqa: S311
        await self._requests.release(receipt, pause, why)

    def _refusal(self, answer: Response) -> str | None:
        """Why an answer is no reply, or None."""
        if not 200 <= answer.status <= 299:
            return f"the callback answered {answer.status}"
        if answer.truncated:
            return f"the callback's reply was cut off, or has more than {self._options.reply_bytes_max} bytes"
        return None


def _as_text(content_type: str | None) -> str | None:
    """A header's characters as the text that its bytes are in UTF-8; None where they are none."""
    if content_type is None or content_type.isascii():
        return content_type
    try:
        return content_type.encode("latin-1").decode()
    except UnicodeError:
        return None
