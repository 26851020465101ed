"""Multipart messages, and the limits that are checked before a message is parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Event", "FrameLimits", "Frames", "Step", "dump", "printable"]

Frames = list[bytes]
_SHOWN_BYTES_MAX = 64


class Event(NamedTuple):
    """An event that a machine reports to logs, metrics and tests, beside the frames that it sends."""

    kind: str
    service: str = ""
    peer: str = ""
    detail: str = ""


Step = tuple[list[Frames], list[Event]]
"""The result of one step of a machine: messages to send, in order, and events to report."""


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Bounds of one message. ``message_bytes_max`` counts all frames together."""

    frames_max: int = 64
    message_bytes_max: int = 16 * 1024 * 1024

    def refusal(self, frames: Sequence[bytes], size: int | None = None) -> str | None:
        """Return the reason why a message exceeds the limits, or None. ``size``: the bytes of all frames, if known."""
        if len(frames) > self.frames_max:
            return "too-many-frames"
        if (sum(map(len, frames)) if size is None else size) > self.message_bytes_max:
            return "message-too-large"
        return None


def printable(frame: bytes) -> str:
    """Return the first 64 bytes of a frame for logs: as text if that is printable ASCII, else as hexadecimal digits."""
    shown = frame[:_SHOWN_BYTES_MAX]
    try:
        text = shown.decode("ascii")
    except UnicodeDecodeError:
        text = ""
    words = text if text.isprintable() and text else f"0x{shown.hex()}" if shown else ""
    return words + ("..." if len(frame) > _SHOWN_BYTES_MAX else "")


def dump(number: int, direction: str, frames: Sequence[bytes]) -> str:
    """Return one line of a trace: the message's number, its direction, then each frame with its length."""
    return f"{number:06d} {direction} " + " | ".join(f"[{len(frame):03d}] {printable(frame)}" for frame in frames)
