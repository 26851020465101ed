"""An event loop for one thread with several sockets and deadlines."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from reqrep.transport import Poll, Socket

__all__ = ["Reactor"]

Clock = Callable[[], float]


class Reactor:
    """Calls the handler of each readable socket and of each deadline that has passed.

    A wait ends at the earliest deadline at the latest, and the deadlines are checked after each wait. A reader must
    take a bounded number of messages per call, so that it does not delay the deadlines.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self._poll = Poll()
        self._readers: dict[Socket, Callable[[], None]] = {}
        self._deadlines: list[tuple[Callable[[], float | None], Callable[[float], None]]] = []
        self._letters: deque[Callable[[float], None]] = deque()
        self._is_stopped = False

    def post(self, letter: Callable[[float], None]) -> None:
        """Let the reactor's thread call ``letter`` with the time, soon. Safe in other threads."""
        self._letters.append(letter)
        self._poll.wake()

    def reader(self, socket: Socket, handler: Callable[[], None]) -> None:
        """Call the handler each time the socket is readable."""
        self._readers[socket] = handler
        self._poll.add(socket)

    def remove(self, socket: Socket) -> None:
        """Stop calling the socket's handler."""
        self._readers.pop(socket, None)
        self._poll.remove(socket)

    def deadline(self, at: Callable[[], float | None], handler: Callable[[float], None]) -> None:
        """Call the handler with the time once the moment that ``at`` returns has passed; None means no deadline."""
        self._deadlines.append((at, handler))

    def timer(self, interval_seconds: float, handler: Callable[[float], None]) -> None:
        """Call the handler with the time, once per interval."""
        following = [self.clock() + interval_seconds]

        def run(now: float) -> None:
            following[0] += interval_seconds
            if following[0] <= now:
                following[0] = now + interval_seconds
            handler(now)

        self.deadline(lambda: following[0], run)

    def run(self) -> None:
        """Wait and call handlers until :meth:`stop` is called."""
        while not self._is_stopped:
            self.turn()

    def turn(self) -> None:
        """Wait once, then call the handlers that are due."""
        first: float | None = None
        for find, _ in self._deadlines:
            at = find()
            if at is not None and (first is None or at < first):
                first = at
        for socket in self._poll.wait(None if first is None else first - self.clock()):
            self._readers[socket]()
        now = self.clock()
        if self._letters:
            for _ in range(len(self._letters)):
                self._letters.popleft()(now)
        if first is None or now < first:
            return
        for find, handler in self._deadlines:
            at = find()
            if at is not None and at <= now:
                handler(now)

    def stop(self) -> None:
        """End :meth:`run` after the present turn. Safe in signal handlers and other threads."""
        self._is_stopped = True
        self._poll.wake()

    def close(self) -> None:
        """Close the reactor's own descriptors. The sockets stay open; the code that opened them closes them."""
        self._poll.close()
