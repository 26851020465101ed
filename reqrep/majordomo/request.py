"""A request that waits for a worker or that a worker executes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reqrep.frames import Frames
from reqrep.majordomo.pipes import LARGE_BYTES, LargeReply
from reqrep.majordomo.wire import Dialect

__all__ = ["REFUSAL_STATUS", "ServiceRequest"]

REFUSAL_STATUS: Final = {
    "no-workers": b"404", "bad-service-name": b"400", "queue-full": b"503", "client-queue-full": b"503",
    "too-many-services": b"503", "disabled": b"503", "expired": b"504", "worker-lost": b"502",
}  # fmt: skip
"""Reason of a refusal -> status that ``mmi.call`` reports."""


@dataclass(slots=True, eq=False)
class ServiceRequest:
    """A client's request.

    * ``user``: the client's authenticated user, or empty.
    * ``connection``: the descriptor of the connection that it came by.
    * ``size``: the bytes of its message. ``held``: what counts in the budget while a worker executes it.
    * ``queued_at``: when it began to wait for a worker. ``weight``: what it costs while it waits.
    * ``following``: the next request in its line.
    * ``reports``: the client called ``mmi.call``, so it gets the reason of a failure.
    * ``parts``: bodies of PARTIAL messages that will be joined with the last reply.
    * ``is_streaming``: the client got a PARTIAL already, so no second worker may execute the request.
    """

    client: bytes
    dialect: Dialect
    service: bytes
    body: Frames
    user: str = ""
    connection: int = -1
    size: int = 0
    queued_at: float = 0.0
    weight: int = 0
    following: ServiceRequest | None = None
    held: int = 0
    reports: bool = False
    tries: int = 0
    parts: tuple[bytes, ...] = ()
    is_streaming: bool = False

    def reply(self, service: bytes, body: Frames) -> Frames:
        """Return the last reply to the client."""
        return self._by_size(self.dialect.to_client(self.client, service, body), body)

    def partial(self, body: Frames) -> Frames:
        """Return a PARTIAL to the client."""
        return self._by_size(self.dialect.partial_to_client(self.client, self.service, body), body)

    def _by_size(self, frames: Frames, body: Frames) -> Frames:
        size = len(body[0]) if len(body) == 1 else sum(map(len, body))
        return LargeReply(frames, self.connection) if size >= LARGE_BYTES else frames
