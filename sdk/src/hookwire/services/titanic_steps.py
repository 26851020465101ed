"""The steps of a client of Titanic, without I/O: calls in order, with pauses (9/TSP, TI-05, TI-21).

Each method is a generator. It yields a :class:`Call`, whose reply the caller sends into it, or a :class:`Pause`. Its
return value is the result. A status is the first three bytes of a frame; a space and text may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from hookwire.services.error import NoReply, RequestRefused, RequestUnknown, StillPending
from hookwire.services.machine import Frames

__all__ = ["Call", "Pause", "Steps", "TitanicOptions", "TitanicSteps"]

_REQUEST, _REPLY, _CLOSE = "titanic.request", "titanic.reply", "titanic.close"
_OK, _PENDING, _FAILED = b"200", b"300", b"500"


@dataclass(frozen=True, slots=True)
class Call:
    """Call a service of Titanic."""

    service: str
    body: Frames


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for this time."""

    seconds: float


Steps = Generator[Call | Pause, Frames, Frames]


@dataclass(frozen=True, slots=True)
class TitanicOptions:
    """Times in seconds.

    * ``poll_seconds``, ``poll_seconds_max``: the first and the longest pause between two polls for a reply; it doubles.
    * ``failing_seconds_max``: how long a call is repeated after status 500 ("failed, retry later").
    """

    poll_seconds: float = 0.05
    poll_seconds_max: float = 2.0
    failing_seconds_max: float = 30.0


class TitanicSteps:
    """The steps of one client. ``clock`` returns monotonic seconds."""

    def __init__(self, options: TitanicOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock

    def submit(self, service: str, body: Sequence[bytes]) -> Steps:
        """Submit a request. Return its id in one frame. Raise :class:`RequestRefused` or :class:`NoReply`."""
        status, *frames = yield from self._answer(_REQUEST, [service.encode(), *body])
        if status != _OK or not frames:
            raise RequestRefused(service, status.decode("ascii", "replace"))
        return frames[:1]

    def fetch(self, request_id: str) -> Steps:
        """Return the status and the reply. Raise :class:`RequestUnknown` or :class:`NoReply`."""
        status, *frames = yield from self._answer(_REPLY, [request_id.encode()])
        if status not in {_OK, _PENDING}:
            raise RequestUnknown(request_id)
        return [status, *frames]

    def wait(self, request_id: str, timeout_seconds: float) -> Steps:
        """Return the reply as soon as it is there. Raise :class:`StillPending` after the time, or as :meth:`fetch`."""
        until = self._clock() + timeout_seconds
        for pause in self._pauses():
            status, *frames = yield from self.fetch(request_id)
            if status == _OK:
                return frames
            left = until - self._clock()
            if left <= 0:
                break
            yield Pause(min(pause, left))
        raise StillPending(request_id)

    def close(self, request_id: str) -> Steps:
        """Delete the request and its reply. Raise :class:`NoReply`."""
        return (yield from self._answer(_CLOSE, [request_id.encode()]))

    def call(self, service: str, body: Sequence[bytes], timeout_seconds: float) -> Steps:
        """Submit a request, wait for its reply, close it and return the reply."""
        (request_id,) = yield from self.submit(service, body)
        reply = yield from self.wait(request_id.decode(), timeout_seconds)
        yield from self.close(request_id.decode())
        return reply

    def _answer(self, service: str, body: Frames) -> Steps:
        """Return the status (three bytes) and the frames behind it. Repeat the call while the status is 500."""
        until = self._clock() + self._options.failing_seconds_max
        for pause in self._pauses():
            first, *frames = yield Call(service, body)
            if first[:3] != _FAILED:
                return [first[:3], *frames]
            if self._clock() >= until:
                break
            yield Pause(pause)
        raise NoReply(service, "Titanic answers 500, because its store fails")

    def _pauses(self) -> Iterator[float]:
        pause = self._options.poll_seconds
        while True:
            yield pause
            pause = min(pause * 2, self._options.poll_seconds_max)
