"""The number of a request in the first frame of its body, for clients with many outstanding requests (MD-24).

7/MDP has no field for it. Workers must return the first frame unchanged; the workers of this package do.
"""

from __future__ import annotations

import struct
from typing import Final

from hookwire.services.machine import Frames

__all__ = ["number_frame", "number_of", "split_number"]

_MARK: Final = b"\x00hookwire-number:"
_NUMBER: Final = struct.Struct(">Q")
_BYTES: Final = len(_MARK) + _NUMBER.size


def number_frame(number: int) -> bytes:
    """Return the frame for a number."""
    return _MARK + _NUMBER.pack(number)


def number_of(frame: bytes) -> int | None:
    """Return the number in a frame, or None for any other frame."""
    if len(frame) != _BYTES or not frame.startswith(_MARK):
        return None
    return int(_NUMBER.unpack_from(frame, len(_MARK))[0])


def split_number(body: Frames) -> tuple[Frames, Frames]:
    """Split off the number. Return a list of at most one frame, and the rest. A body of one frame is not split."""
    if len(body) > 1 and number_of(body[0]) is not None:
        return body[:1], body[1:]
    return [], body
