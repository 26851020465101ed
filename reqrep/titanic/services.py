"""The three services of 9/TSP: titanic.request, titanic.reply and titanic.close."""

from __future__ import annotations

import logging
import time
from typing import Final

from reqrep.frames import Frames
from reqrep.inside import split_number
from reqrep.titanic.store import AcceptedRequest, RequestState, RequestStore, StoreError

__all__ = ["TITANIC_CLOSE", "TITANIC_NAMES", "TITANIC_REPLY", "TITANIC_REQUEST", "TitanicServices"]

_LOG = logging.getLogger(__name__)
TITANIC_REQUEST: Final = b"titanic.request"
TITANIC_REPLY: Final = b"titanic.reply"
TITANIC_CLOSE: Final = b"titanic.close"
TITANIC_NAMES: Final = frozenset({TITANIC_REQUEST, TITANIC_REPLY, TITANIC_CLOSE})
_OK: Final = b"200"
_PENDING: Final = b"300"
_REFUSED: Final = b"400"
_FAILED: Final = b"500"
_RESERVED: Final = ("mmi.", "titanic.")
_SERVICE_BYTES_MAX: Final = 255
_WARN_SECONDS: Final = 60.0


class TitanicServices:
    """Answers clients. A client may use an id over any connection."""

    def __init__(self, store: RequestStore) -> None:
        self._store = store
        self._failures = 0
        self._warn_at = 0.0

    async def answer(self, service: bytes, body: Frames, user: str = "") -> Frames:
        """Return the body of the reply of one of the three services. A failure of the store gives 500.

        If the first frame is the number of a pipelined request, the reply begins with it.
        """
        number, body = split_number(body)
        return [*number, *await self._answer(service, body, user)]

    async def _answer(self, service: bytes, body: Frames, user: str) -> Frames:
        try:
            if service == TITANIC_REQUEST:
                return await self._request(body, user)
            if service == TITANIC_REPLY:
                return await self._reply(body)
            return await self._close(body)
        except StoreError as error:
            self._warn(service, error)
            return [_FAILED]

    def _warn(self, service: bytes, error: StoreError) -> None:
        """Log at most one warning a minute."""
        self._failures += 1
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + _WARN_SECONDS
            name = service.decode("ascii", "replace")
            _LOG.warning("the answer to %s is 500 (%d such answers since the start): %s", name, self._failures, error)

    async def _request(self, body: Frames, user: str) -> Frames:
        service = _service_in(body)
        if service is None or len(body) == 1:
            return [_REFUSED]
        request_id = await self._store.accept(AcceptedRequest(service, body[1:], user))
        return [_OK, request_id.encode()]

    async def _reply(self, body: Frames) -> Frames:
        answer = await self._store.fetch(_id_in(body))
        if answer.state is RequestState.ANSWERED:
            return [_OK, *answer.reply]
        return [_PENDING if answer.state is RequestState.PENDING else _REFUSED]

    async def _close(self, body: Frames) -> Frames:
        await self._store.close(_id_in(body))
        return [_OK]


def _service_in(body: Frames) -> str | None:
    """Return the name of the requested service, or None for an invalid or reserved name."""
    try:
        name = body[0].decode()
    except (UnicodeDecodeError, IndexError):
        return None
    is_sound = 0 < len(body[0]) <= _SERVICE_BYTES_MAX and name.isprintable() and not name.startswith(_RESERVED)
    return name if is_sound else None


def _id_in(body: Frames) -> str:
    """Return the id as text. It is not validated, because the store knows no invalid id."""
    return body[0].decode("ascii", "replace") if body else ""
