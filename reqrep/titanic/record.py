"""The payloads of the records in Titanic's file, packed as bytes. No I/O."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from reqrep.frames import Frames

__all__ = [
    "RecordKind",
    "StoredReply",
    "StoredRequest",
    "pack_closed",
    "pack_opened",
    "pack_reply",
    "pack_request",
    "read_closed",
    "read_opened",
    "read_reply",
    "read_request",
]

_ID: Final = struct.Struct("<16s")
_EPOCH: Final = struct.Struct("<Q")
_REQUEST: Final = struct.Struct("<16sdHH")
_REPLY: Final = struct.Struct("<16sQ")
_LENGTH: Final = struct.Struct("<I")


class RecordKind(IntEnum):
    """The kinds of records. OPENED: a process opened the file; its number keeps its fences above all earlier fences."""

    OPENED = 1
    REQUEST = 2
    REPLY = 3
    CLOSED = 4


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request in the file. ``accepted_at`` is wall-clock time in seconds."""

    id: str
    accepted_at: float
    service: str
    user: str
    body: Frames


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply in the file, with the fence of the claim that sent it."""

    id: str
    fence: int
    body: Frames


def pack_request(request: StoredRequest) -> bytes:
    """Return the payload of a REQUEST. Raise ValueError if service or user is longer than 65,535 bytes."""
    service, user = request.service.encode(), request.user.encode()
    try:
        head = _REQUEST.pack(bytes.fromhex(request.id), request.accepted_at, len(service), len(user))
    except struct.error as error:
        raise ValueError("the name of a service or user is longer than 65535 bytes") from error
    return b"".join([head, service, user, *_pack_frames(request.body)])


def read_request(payload: bytes) -> StoredRequest:
    """Return the request in a payload."""
    raw_id, accepted_at, service_bytes, user_bytes = _REQUEST.unpack_from(payload)
    user_at = _REQUEST.size + service_bytes
    body_at = user_at + user_bytes
    service, user = payload[_REQUEST.size : user_at].decode(), payload[user_at:body_at].decode()
    return StoredRequest(raw_id.hex(), accepted_at, service, user, _read_frames(payload, body_at))


def pack_reply(reply: StoredReply) -> bytes:
    """Return the payload of a REPLY."""
    return b"".join([_REPLY.pack(bytes.fromhex(reply.id), reply.fence), *_pack_frames(reply.body)])


def read_reply(payload: bytes) -> StoredReply:
    """Return the reply in a payload."""
    raw_id, fence = _REPLY.unpack_from(payload)
    return StoredReply(raw_id.hex(), fence, _read_frames(payload, _REPLY.size))


def pack_closed(request_id: str) -> bytes:
    """Return the payload of a CLOSED."""
    return _ID.pack(bytes.fromhex(request_id))


def read_closed(payload: bytes) -> str:
    """Return the id in the payload of a CLOSED."""
    (raw_id,) = _ID.unpack(payload)
    return str(raw_id.hex())


def pack_opened(epoch: int) -> bytes:
    """Return the payload of an OPENED."""
    return _EPOCH.pack(epoch)


def read_opened(payload: bytes) -> int:
    """Return the number in the payload of an OPENED."""
    (epoch,) = _EPOCH.unpack(payload)
    return int(epoch)


def _pack_frames(frames: Frames) -> list[bytes]:
    return [part for frame in frames for part in (_LENGTH.pack(len(frame)), frame)]


def _read_frames(payload: bytes, at: int) -> Frames:
    frames = []
    while at < len(payload):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        frames.append(payload[at : at + length])
        at += length
    return frames
