"""Callbacks of services: a callback gets each request as a POST, and the body of its 2xx answer is the reply.

A subscription ``{"service", "callback"}`` adds a callback to a service. The request is leased for the time that the
POST may take. Without a 2xx answer the try has failed: the request is due again after a pause that doubles. The next
try goes to another callback of the service, if there is one. After ``tries_max`` tries the request fails. An answer 410
also ends the subscription.

:mod:`egress.callback_worker` leases and POSTs, for requests and for jobs.
"""

from __future__ import annotations

import random
import re
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
_TYPE_BYTES_MAX: Final = 255
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""What ``hookwire.check_contents`` refuses in a content type."""


class Callbacks(CallbackWorker):
    """Leases requests of services that have callbacks, POSTs them and stores the replies."""

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
        """Poll now if the service of a new request has a callback. Most have none and cost no query."""
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
        """Return the POST: the request's body and content type as its caller sent them."""
        headers = [
            ("hookwire-service", work["service"]), ("hookwire-request-id", work["id"]),
            ("hookwire-attempt", str(work["attempts"])),
        ]  # fmt: skip
        if work["content_type"] is not None:
            headers.append(("content-type", work["content_type"].encode().decode("latin-1")))
        return CallbackMessage(f"req_{work['id']}", headers, work["body"])

    async def record(self, work: Mapping[str, Any], answer: Response | str) -> None:
        """Store the reply, or release the request for the next try. End the subscription after a 410."""
        receipt = RequestReceipt(work["id"], work["claim"])
        why = answer if isinstance(answer, str) else self._refusal(answer)
        if why is None and isinstance(answer, Response):
            content_type = next(iter(answer.values("content-type")), None)
            try:
                outcome = await self._requests.reply(receipt, answer.body, _stored_type(content_type))
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
        """Return the reason why an answer is no reply, or None."""
        if not 200 <= answer.status <= 299:
            return f"the callback answered {answer.status}"
        if answer.truncated:
            return f"the callback's reply is incomplete or longer than {self._options.answer_bytes_max} bytes"
        return None


def _stored_type(content_type: str | None) -> str | None:
    """Decode a Latin-1 header value again as UTF-8, with blanks for tabs. Return None for a type that cannot be stored:
    the work is done, and a reply without its type is better than none.
    """
    if content_type is None:
        return None
    value = content_type.replace("\t", " ").encode("latin-1")
    try:
        text = value.decode()
    except UnicodeError:
        return None
    return text if len(value) <= _TYPE_BYTES_MAX and _CONTROL.search(text) is None else None
