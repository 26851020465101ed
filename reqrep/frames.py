"""Messages of several frames, and the limits that hold before anything is parsed (XX-04)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Event", "FrameLimits", "Frames", "Step", "dump", "printable"]

Frames = list[bytes]
_SHOWN_BYTES_MAX = 64


class Event(NamedTuple):
    """Something that a machine reports beside the frames that it sends: for logs, metrics and tests."""

    kind: str
    service: str = ""
    peer: str = ""
    detail: str = ""


Step = tuple[list[Frames], list[Event]]
"""Result of each step of a machine: messages to send, in order, and events to report."""


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Bounds of one message. ``message_bytes_max`` counts all frames together."""

    frames_max: int = 64
    message_bytes_max: int = 16 * 1024 * 1024

    def refusal(self, frames: Sequence[bytes]) -> str | None:
        """Return the reason to drop the message unread, or None."""
        if len(frames) > self.frames_max:
            return "too-many-frames"
        if sum(map(len, frames)) > self.message_bytes_max:
            return "message-too-large"
        return None


def printable(frame: bytes) -> str:
    """Return a frame as text for logs: itself when it is printable, else hexadecimal digits."""
    shown = frame[:_SHOWN_BYTES_MAX]
    try:
        text = shown.decode("ascii")
    except UnicodeDecodeError:
        text = ""
    words = text if text.isprintable() and text else f"0x{shown.hex()}" if shown else ""
    return words + ("..." if len(frame) > _SHOWN_BYTES_MAX else "")


def dump(number: int, direction: str, frames: Sequence[bytes]) -> str:
    """Return one line of a trace: running number, direction, then each frame with its length (HB-10)."""
    return f"{number:06d} {direction} " + " | ".join(f"[{len(frame):03d}] {printable(frame)}" for frame in frames)
