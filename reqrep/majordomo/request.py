"""A request that waits for a worker or is with one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from reqrep.frames import Frames
from reqrep.majordomo.wire import Dialect

__all__ = ["REFUSAL_STATUS", "ServiceRequest"]

REFUSAL_STATUS: Final = {
    "no-workers": b"404", "bad-service-name": b"400", "queue-full": b"503", "client-queue-full": b"503",
    "too-many-services": b"503", "disabled": b"503", "expired": b"504", "worker-lost": b"502",
}  # fmt: skip
"""Why a request was not answered, and the status that ``mmi.call`` reports for it."""


@dataclass(slots=True, eq=False)
class ServiceRequest:
    """A client's request. ``deadline``: until then it may wait in the queue. ``user``: authenticated, or empty.

    ``reports``: the client called ``mmi.call`` and gets the reason of a failure (MD-35). ``parts``: bodies of
    PARTIAL that wait for the last one. ``is_streaming``: a PARTIAL has left for the client, so no second worker may
    run the request.
    """

    client: bytes
    dialect: Dialect
    service: bytes
    body: Frames
    deadline: float = 0.0
    user: str = ""
    reports: bool = False
    tries: int = 0
    parts: Frames = field(default_factory=list)
    is_streaming: bool = False
