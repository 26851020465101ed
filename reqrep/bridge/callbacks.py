"""Callbacks: workers that get each request as a POST, and whose 2xx body is the reply.

A subscription ``{"service", "callback"}`` makes one. The request is leased for as long as the POST may take. Any other
answer, or none, is a failed try: the request is due again after a growing pause, at another callback of the service if
there is one, until the service's ``tries_max``. 410 ends the subscription.

:mod:`egress.callback_worker` leases and POSTs, for jobs too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from db.errors import DatabaseError, Refused
from db.pool import Database
from egress.callback import CallbackBook, CallbackMessage, CallbackOptions
from egress.callback_worker import LEASE_MARGIN_SECONDS, LEASED_EACH, CallbackWorker
from egress.client import Outbound, Response
from reqrep.bridge.receipt import RequestReceipt
from reqrep.bridge.requests import STORED, Requests

__all__ = ["Callbacks"]

_PAUSE_SECONDS_MAX = 60.0
_SERVICES_MAX = 10_000
_GONE: Final = 410


class Callbacks(CallbackWorker):
    """Lease requests of services that have callbacks, POST them, store the replies."""

    name = "service callbacks"
    expected: ClassVar = (DatabaseError,)

    def __init__(
        self, database: Database, requests: Requests, outbound: Outbound, book: CallbackBook, options: CallbackOptions,
        on_posted: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        super().__init__(outbound, book, options)
        self._database = database
        self._requests = requests
        self._on_posted = on_posted
        self._services: set[str] = set()

    def requested(self, service: str) -> None:
        """A request of this service is waiting; most services have no callback, and cost no question."""
        if service in self._services:
            self.poll_now()

    async def lease(self, full: Sequence[int], subscriptions: int) -> Sequence[Mapping[str, Any]]:
        """Lease requests, and remember which services have a callback."""
        rows = await self._database.fetch(
            "request.lease_for_callbacks", full, LEASED_EACH, self._options.timeout_seconds, LEASE_MARGIN_SECONDS,
            subscriptions,
        )  # fmt: skip
        for row in rows:
            if len(self._services) >= _SERVICES_MAX:
                self._services.clear()
            self._services.add(row["service"])
        return rows

    def message(self, work: Mapping[str, Any]) -> CallbackMessage:
        """Return the request as it was made."""
        headers = [
            ("hookwire-service", work["service"]), ("hookwire-request-id", work["id"]),
            ("hookwire-attempt", str(work["attempts"])),
        ]  # fmt: skip
        if work["content_type"] is not None:
            headers.append(("content-type", work["content_type"].encode().decode("latin-1")))
        return CallbackMessage(f"req_{work['id']}", headers, work["body"])

    async def record(self, work: Mapping[str, Any], answer: Response | str) -> None:
        """Store the reply, or release the request."""
        receipt = RequestReceipt(work["id"], work["claim"])
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
                "subscription.end", work["subscription_id"], "gone", "the callback answered 410", work["version"]
            )
        pause = min(2.0 ** (work["attempts"] - 1), _PAUSE_SECONDS_MAX) * (0.8 + 0.4 * random.random())  # noqa: S311
        await self._requests.release(receipt, pause, why)

    def _refusal(self, answer: Response) -> str | None:
        """Why an answer is no reply, or None."""
        if not 200 <= answer.status <= 299:
            return f"the callback answered {answer.status}"
        if answer.truncated:
            return f"the callback's reply was cut off, or has more than {self._options.answer_bytes_max} bytes"
        return None


def _as_text(content_type: str | None) -> str | None:
    """A header's characters as the text that its bytes are in UTF-8; None where they are none."""
    if content_type is None or content_type.isascii():
        return content_type
    try:
        return content_type.encode("latin-1").decode()
    except UnicodeError:
        return None
