"""Stop a command that is not a coroutine: the first signal ends it between two steps, the second at once."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

__all__ = ["Stop"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """A context that handles SIGTERM and Ctrl-C."""

    def __init__(self) -> None:
        self.is_asked = False
        self._woken, self._wake = os.pipe()

    def __enter__(self) -> Stop:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wake)

    def listen(self) -> None:
        """Install the handlers, also where a library has replaced them. Do nothing after the first signal."""
        for number in () if self.is_asked else _SIGNALS:
            signal.signal(number, self._hear)

    def wait(self, seconds: float) -> None:
        """Wait until the time is over or a stop is requested."""
        select.select([self._woken], [], [], seconds)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_asked = True
        os.write(self._wake, b".")
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
