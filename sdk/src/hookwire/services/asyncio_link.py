"""A machine's connection on an asyncio loop: a reader on the socket's descriptor, and one timer.

The descriptor is edge-triggered, so messages are also looked for after each send (ZA-02). No receive is ever cancelled,
because none is awaited (ZA-03).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hookwire.services.machine import Event, Frames, Machine, Step
from hookwire.services.transport import Link, Socket, SocketOptions

__all__ = ["AsyncioLink"]

_DRAIN_MESSAGES_MAX = 500


class AsyncioLink:
    """Drives one machine; ``found`` is called with each event that is the caller's."""

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
        """Return the loop's monotonic time; all steps of the machine use it."""
        return self._loop.time()

    def carry_out(self, step: Step) -> None:
        """Do what the step asks, hand its events on, and set the timer for the next deadline."""
        for event in self._link.carry_out(step):
            self._found(event)
        if step.frames:
            self._look_soon()
        self._set_timer()

    def close(self) -> None:
        """Close the socket and end the timer."""
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
        """One timer for the earliest deadline; a deadline that moved later is found when the timer ends."""
        deadline = self._machine.deadline()
        if self._timer is not None and (deadline is None or self._timer.when() > deadline):
            self._timer.cancel()
            self._timer = None
        if deadline is not None and self._timer is None:
            self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        """Take waiting messages first, so that a pause of this process is not the peer's silence (HB-02)."""
        self._timer = None
        self._read()
        deadline = self._machine.deadline()
        if deadline is not None and deadline <= self.now():
            self.carry_out(self._machine.tick(self.now()))
        self._set_timer()
