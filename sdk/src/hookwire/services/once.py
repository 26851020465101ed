"""Idempotent services: a repeated request gets the stored reply, and its handler does not run again.

The client puts a stamp, its own id and a message number, into a frame before the body (ID-01)::

    stamps = RequestStamps()                                 client.call_frames("pay", stamps.stamped(b"bill 7"))

The worker stores each reply under its stamp before it sends the reply (ID-02)::

    @worker.frames_service("pay")
    @once(MemoryReplyCache())
    def pay(frames): ...

A request without a stamp runs each time. :class:`SqlReplyCache` commits the reply together with the handler's own
changes (ID-06).
"""

from __future__ import annotations

import secrets
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple, Protocol

from hookwire.services.machine import Frames

__all__ = ["MemoryReplyCache", "ReplyCache", "RequestStamp", "RequestStamps", "once", "split_stamp"]

_MARK: Final = b"\x00hookwire-once:"
_STAMP: Final = struct.Struct(">16sQ")
_BYTES: Final = len(_MARK) + _STAMP.size


class RequestStamp(NamedTuple):
    """The identity of a request: the client's id (16 bytes) and a message number."""

    client_id: bytes
    number: int


class RequestStamps:
    """Creates the stamps of one client. After a restart, use a new id, or continue with the stored id and number."""

    def __init__(self, client_id: bytes | None = None, last_number: int = 0) -> None:
        self.client_id = client_id or secrets.token_bytes(16)
        if len(self.client_id) != 16:
            raise ValueError(f"a client's id has 16 bytes, not {len(self.client_id)}")
        self.last_number = last_number
        self._turn = threading.Lock()

    def stamped(self, *body: bytes) -> list[bytes]:
        """Return the frames of a new request. Send the same frames again to repeat it."""
        with self._turn:
            self.last_number += 1
            return [_MARK + _STAMP.pack(self.client_id, self.last_number), *body]


def split_stamp(frames: Frames) -> tuple[RequestStamp | None, Frames]:
    """Split off the stamp. Return it, or None, and the body."""
    if not frames or len(frames[0]) != _BYTES or not frames[0].startswith(_MARK):
        return None, frames
    return RequestStamp(*_STAMP.unpack_from(frames[0], len(_MARK))), frames[1:]


class ReplyCache(Protocol):
    """Stores replies by stamp."""

    def reply(self, stamp: RequestStamp, run: Callable[[], Frames]) -> Frames:
        """Return the stored reply of a stamp. If there is none, call ``run``, store its reply and return it (ID-03).

        While a request with the stamp runs, a second request waits for its reply (ID-04). If ``run`` raises, nothing is
        stored, the exception is raised, and a waiting request runs.
        """


def once(cache: ReplyCache) -> Callable[[Callable[[Frames], Frames]], Callable[[Frames], Frames]]:
    """Decorate a handler of frames so that it runs once for each stamp."""

    def decorate(handler: Callable[[Frames], Frames]) -> Callable[[Frames], Frames]:
        def handle(frames: Frames) -> Frames:
            stamp, body = split_stamp(frames)
            return handler(body) if stamp is None else cache.reply(stamp, lambda: handler(body))

        return handle

    return decorate


class MemoryReplyCache:
    """Keeps the latest replies in memory: at most ``replies_max`` replies and ``bytes_max`` bytes (ID-05).

    Without its stored reply, a repeated request runs again. Choose limits that keep a reply for longer than clients
    repeat a request.
    """

    def __init__(self, replies_max: int = 10_000, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._replies_max = replies_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._replies: OrderedDict[RequestStamp, Frames] = OrderedDict()
        self._running: dict[RequestStamp, Future[None]] = {}
        self._turn = threading.Lock()

    def reply(self, stamp: RequestStamp, run: Callable[[], Frames]) -> Frames:
        """Return the stored reply, or run the handler, as in :class:`ReplyCache`."""
        while True:
            with self._turn:
                if stamp in self._replies:
                    return self._replies[stamp]
                first = self._running.get(stamp)
                if first is None:
                    mine = self._running[stamp] = Future()
                    break
            first.result()
        try:
            frames = [*run()]
            self._store(stamp, frames)
            return frames
        finally:
            with self._turn:
                del self._running[stamp]
            mine.set_result(None)

    def _store(self, stamp: RequestStamp, frames: Frames) -> None:
        size = len(b"".join(frames))  # raises TypeError for an invalid reply, before it is stored
        with self._turn:
            self._replies[stamp] = frames
            self._bytes += size
            while len(self._replies) > self._replies_max or self._bytes > self._bytes_max:
                _, gone = self._replies.popitem(last=False)
                self._bytes -= sum(map(len, gone))
