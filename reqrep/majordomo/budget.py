"""The bytes that a broker keeps for its clients: waiting requests, replies that wait, and large requests at work."""

from __future__ import annotations

from typing import Final

from reqrep.frames import Frames
from reqrep.majordomo.pipes import LARGE_BYTES
from reqrep.majordomo.request import ServiceRequest

__all__ = ["LINE_BYTES", "Budget", "weight_of"]

_MESSAGE_BYTES: Final = 320
_FRAME_BYTES: Final = 64
_ONE_FRAME_BYTES: Final = _MESSAGE_BYTES + _FRAME_BYTES
LINE_BYTES: Final = 1024
"""What a client with waiting messages costs beside them. A test measures all these figures."""


def weight_of(body: Frames) -> int:
    """Return what a waiting message costs: its bytes and the measured overhead."""
    if len(body) == 1:
        return _ONE_FRAME_BYTES + len(body[0])
    return _MESSAGE_BYTES + _FRAME_BYTES * len(body) + sum(map(len, body))


class Budget:
    """Counts bytes by client and in all. One client may hold a quarter of ``bytes_max``.

    The client b"" is this process. Only the limit for all holds for it.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.client_bytes_max = bytes_max // 4
        self.held = 0
        self._by_client: dict[bytes, int] = {}

    def refusal(self, client: bytes, weight: int) -> str | None:
        """Return the reason why a client may not hold so many more bytes, or None."""
        if client and self._by_client.get(client, 0) + weight > self.client_bytes_max:
            return "client-queue-full"
        return "queue-full" if self.held + weight > self.bytes_max else None

    def take(self, client: bytes, weight: int) -> None:
        """Count bytes that are kept now."""
        self.held += weight
        self._by_client[client] = self._by_client.get(client, 0) + weight

    def give(self, client: bytes, weight: int) -> None:
        """Count bytes that are kept no longer."""
        self.held -= weight
        left = self._by_client[client] - weight
        if left:
            self._by_client[client] = left
        else:
            del self._by_client[client]

    def refusal_of_large(self, request: ServiceRequest) -> str | None:
        """Return why a worker may not get a request, or None. A large one counts until its end: no worker may read."""
        return None if request.size < LARGE_BYTES else self.refusal(request.client, request.size)

    def hold_large(self, request: ServiceRequest) -> None:
        """Count a large request that a worker gets."""
        if request.size >= LARGE_BYTES:
            self.hold(request, request.size)

    def hold(self, request: ServiceRequest, size: int) -> None:
        """Count bytes until the end of a request that a worker executes."""
        self.take(request.client, size)
        request.held += size

    def release(self, request: ServiceRequest) -> None:
        """Count no longer what a request held while a worker executed it."""
        self.give(request.client, request.held)
        request.held = 0
