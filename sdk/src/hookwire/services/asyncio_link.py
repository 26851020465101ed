"""A machine's connection in an asyncio event loop: a reader on the socket's descriptor, and a timer.

The descriptor is edge-triggered, so the socket is also read after each send (ZA-02). No task awaits a message, so no
cancellation can lose a message (ZA-03).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hookwire.services.machine import Event, Frames, Machine, Step
from hookwire.services.transport import Link, Socket, SocketOptions

__all__ = ["AsyncioLink"]

_DRAIN_MESSAGES_MAX = 500


class AsyncioLink:
    """Drives one machine. ``found`` gets each event that does not concern the socket."""

    def __init__(
        self,
        machine: Machine,
        found: Callable[[Event], None],
        options: SocketOptions | None = None,
        trace: Callable[[str, Frames], None] | None = None,
    ) -> None:
        self._machine = machine
        self._found = found
        self._loop = asyncio.get_running_loop()
        self._link = Link(self._opened, self._closing, options, trace)
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Handle | None = None

    def now(self) -> float:
        """Return the event loop's monotonic time, which all steps of the machine use."""
        return self._loop.time()

    def carry_out(self, step: Step) -> None:
        """Carry out a step: connect, send, pass on its events, and set the timer for the next deadline."""
        for event in self._link.carry_out(step):
            self._found(event)
        if step.frames:
            self._look_soon()
        self._set_timer()

    def close(self) -> None:
        """Close the socket and cancel the timer."""
        self._link.close()
        for handle in (self._timer, self._look):
            if handle is not None:
                handle.cancel()

    def _opened(self, socket: Socket) -> None:
        self._loop.add_reader(socket.descriptor(), self._read)
        self._look_soon()

    def _closing(self, socket: Socket) -> None:
        self._loop.remove_reader(socket.descriptor())

    def _look_soon(self) -> None:
        if self._look is None:
            self._look = self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._look = None
        for _ in range(_DRAIN_MESSAGES_MAX):
            frames = self._link.receive()
            if frames is None:
                return
            self.carry_out(self._machine.receive(self.now(), frames))
        self._look_soon()

    def _set_timer(self) -> None:
        """Set the timer if the deadline is earlier than the timer. A timer that is too early sets the next timer."""
        deadline = self._machine.deadline()
        if self._timer is not None and (deadline is None or self._timer.when() > deadline):
            self._timer.cancel()
            self._timer = None
        if deadline is not None and self._timer is None:
            self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        """Read waiting messages before the deadline is checked: after a pause of this process they count (HB-02)."""
        self._timer = None
        self._read()
        deadline = self._machine.deadline()
        if deadline is not None and deadline <= self.now():
            self.carry_out(self._machine.tick(self.now()))
        self._set_timer()
