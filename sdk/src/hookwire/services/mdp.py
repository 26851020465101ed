"""The messages of 7/MDP (0.1) and 18/MDP (0.2) on the DEALER of a client or worker.

The broker has its own encoder and parser. Both are tested against the messages in ``openapi/mdp-vectors.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from hookwire.services.machine import Frames

__all__ = ["DIALECTS", "MDP_01", "MDP_02", "Dialect", "FromBroker", "ToClient", "Version"]

Version = Literal["0.1", "0.2"]
_EMPTY: Final = b""


class ToClient(NamedTuple):
    """A reply to a client. ``is_final`` is False for a PARTIAL."""

    service: bytes
    body: Frames
    is_final: bool


class FromBroker(NamedTuple):
    """A command to a worker. Only "request" has a ``client`` and a ``body``."""

    command: Literal["request", "heartbeat", "disconnect"]
    client: bytes = b""
    body: Frames = []  # noqa: RUF012 - never changed


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version of the protocol: its bytes, and methods that build and parse messages."""

    version: Version
    lead: tuple[bytes, ...]
    client_header: bytes
    worker_header: bytes
    client_request: tuple[bytes, ...]
    client_partial: tuple[bytes, ...]
    client_final: tuple[bytes, ...]
    worker_partial: bytes
    worker_reply: bytes
    heartbeat: bytes
    disconnect: bytes

    def client_message(self, service: bytes, body: Frames) -> Frames:
        """Build a client's REQUEST (MD-01, M2-02)."""
        return [*self.lead, self.client_header, *self.client_request, service, *body]

    def read_reply(self, frames: Frames) -> ToClient | None:
        """Return the reply in a message to a client, or None for a malformed message."""
        lead = [*self.lead, self.client_header]
        for command, is_final in ((self.client_final, True), (self.client_partial, False)):
            start = [*lead, *command]
            if (is_final or command) and frames[: len(start)] == start and len(frames) >= len(start) + 2:
                return ToClient(frames[len(start)], frames[len(start) + 1 :], is_final)
        return None

    def ready(self, service: bytes) -> Frames:
        """Build READY (MD-03)."""
        return [*self.lead, self.worker_header, b"\x01", service]

    def reply(self, client: bytes, body: Frames) -> Frames:
        """Build a worker's REPLY, or FINAL in 0.2 (MD-05, M2-03)."""
        return [*self.lead, self.worker_header, self.worker_reply, client, _EMPTY, *body]

    def partial(self, client: bytes, body: Frames) -> Frames:
        """Build a worker's PARTIAL. Raise ValueError in 0.1, which has no partial replies."""
        if not self.worker_partial:
            raise ValueError("7/MDP 0.1 has no partial replies; register the worker with version='0.2'")
        return [*self.lead, self.worker_header, self.worker_partial, client, _EMPTY, *body]

    def bare(self, command: Literal["heartbeat", "disconnect"]) -> Frames:
        """Build HEARTBEAT or DISCONNECT (MD-06)."""
        return [*self.lead, self.worker_header, self.heartbeat if command == "heartbeat" else self.disconnect]

    def read_command(self, frames: Frames) -> FromBroker | None:
        """Return the command in a message to a worker, or None for a malformed message."""
        start = len(self.lead)
        if frames[: start + 1] != [*self.lead, self.worker_header] or len(frames) < start + 2:
            return None
        command, arguments = frames[start + 1], frames[start + 2 :]
        if command == b"\x02" and len(arguments) >= 3 and arguments[1] == _EMPTY:
            return FromBroker("request", arguments[0], arguments[2:])
        if command == self.heartbeat and not arguments:
            return FromBroker("heartbeat")
        if command == self.disconnect and not arguments:
            return FromBroker("disconnect")
        return None


MDP_01: Final = Dialect(
    version="0.1", lead=(_EMPTY,), client_header=b"MDPC01", worker_header=b"MDPW01", client_request=(),
    client_partial=(), client_final=(), worker_partial=b"", worker_reply=b"\x03", heartbeat=b"\x04",
    disconnect=b"\x05",
)  # fmt: skip
MDP_02: Final = Dialect(
    version="0.2", lead=(), client_header=b"MDPC02", worker_header=b"MDPW02", client_request=(b"\x01",),
    client_partial=(b"\x02",), client_final=(b"\x03",), worker_partial=b"\x03", worker_reply=b"\x04",
    heartbeat=b"\x05", disconnect=b"\x06",
)  # fmt: skip
DIALECTS: Final[dict[Version, Dialect]] = {"0.1": MDP_01, "0.2": MDP_02}
