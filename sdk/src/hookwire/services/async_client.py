"""Clients for asyncio: many concurrent calls, each repeated until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hookwire.services.async_worker import AsyncHandler
from hookwire.services.asyncio_link import AsyncioLink
from hookwire.services.error import ClientClosed, NoReply
from hookwire.services.machine import Answered, Event, Frames, GaveUp, Part, Step
from hookwire.services.mdp import DIALECTS, Version
from hookwire.services.pipeline_machine import PipelineMachine
from hookwire.services.retry_client import MajordomoExchange, RetryClient, RetryOptions
from hookwire.services.transport import Curve, SocketOptions

__all__ = ["AsyncClient", "AsyncPipeline"]


class _Stream:
    """One socket, at most one call on it, and the future of that call."""

    def __init__(self, options: RetryOptions, version: Version, curve: Curve | None) -> None:
        self.machine = RetryClient(MajordomoExchange(DIALECTS[version]), options)
        self.link = AsyncioLink(self.machine, self._found, SocketOptions(curve=curve))
        self._future: asyncio.Future[Frames] | None = None
        self._parts: Frames = []
        self._service = b""

    async def call(self, service: bytes, body: Frames) -> Frames:
        self._future = asyncio.get_running_loop().create_future()
        self._service, self._parts = service, []
        self.link.carry_out(self.machine.call(self.link.now(), service, body))
        try:
            return await self._future
        finally:
            # A cancelled call closes its socket, so its reply never reaches a later call.
            self._future = None
            self.link.carry_out(self.machine.cancel())

    def fail(self, error: Exception) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_exception(error)

    def _found(self, event: Event) -> None:
        if isinstance(event, Part):
            self._parts += event.body
        elif isinstance(event, GaveUp):
            self.fail(NoReply(self._service.decode("utf-8", "replace"), event.reason))
        elif isinstance(event, Answered) and self._future is not None and not self._future.done():
            self._future.set_result([*self._parts, *event.body])


class AsyncClient:
    """A Majordomo client. Each concurrent call has its own socket, so it works with every worker.

    At most ``window`` calls run at once; further calls wait. Use it inside ``async with``.
    """

    def __init__(
        self,
        *endpoints: str,
        window: int = 32,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        pause_seconds: float = 0.0,
        version: Version = "0.1",
        curve: Curve | None = None,
    ) -> None:
        self._options = RetryOptions(endpoints, timeout_seconds, tries, pause_seconds)
        self._version: Version = version
        self._curve = curve
        self._turns = asyncio.Semaphore(window)
        self._free: list[_Stream] = []
        self._all: list[_Stream] = []
        self._is_closed = False

    async def call(self, service: str, body: bytes) -> bytes:
        """Return the reply of a service; several frames are joined. Raise :class:`NoReply`."""
        return b"".join(await self.call_frames(service, [body]))

    async def call_frames(self, service: str, body: Sequence[bytes]) -> list[bytes]:
        """Return all frames of the reply and of partial replies. Raise :class:`NoReply`."""
        async with self._turns:
            if self._is_closed:
                raise ClientClosed
            stream = self._free.pop() if self._free else self._open()
            try:
                return await stream.call(service.encode(), list(body) or [b""])
            finally:
                self._free.append(stream)

    def service(self, name: str) -> Callable[[AsyncHandler], AsyncHandler]:
        """Decorate a typed stub so that it calls the service. The stub's body never runs."""

        def decorate(stub: AsyncHandler) -> AsyncHandler:
            async def call(body: bytes) -> bytes:
                return await self.call(name, body)

            call.__name__, call.__doc__ = getattr(stub, "__name__", name), stub.__doc__
            return call

        return decorate

    def close(self) -> None:
        """Close all sockets. Calls in progress raise :class:`ClientClosed`."""
        self._is_closed = True
        for stream in self._all:
            stream.fail(ClientClosed())
            stream.link.close()

    def _open(self) -> _Stream:
        stream = _Stream(self._options, self._version, self._curve)
        self._all.append(stream)
        return stream

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class AsyncPipeline:
    """Many calls on one socket, told apart by numbers. Workers must return the first frame unchanged."""

    def __init__(
        self,
        *endpoints: str,
        window: int = 200,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        version: Version = "0.1",
        curve: Curve | None = None,
    ) -> None:
        self._machine = PipelineMachine(RetryOptions(endpoints, timeout_seconds, tries), window, DIALECTS[version])
        self._link = AsyncioLink(self._machine, self._found, SocketOptions(curve=curve))
        self._turns = asyncio.Semaphore(window)
        self._futures: dict[int, asyncio.Future[Frames]] = {}

    async def call_frames(self, service: str, body: Sequence[bytes]) -> list[bytes]:
        """Return the frames of the reply. Raise :class:`NoReply`."""
        async with self._turns:
            step: Step = self._machine.submit(self._link.now(), service.encode(), list(body))
            number = self._machine.number
            future: asyncio.Future[Frames] = asyncio.get_running_loop().create_future()
            self._futures[number] = future
            self._link.carry_out(step)
            try:
                return await future
            except NoReply as error:
                raise NoReply(service, error.reason) from None
            finally:
                del self._futures[number]
                self._machine.forget(number)

    async def call(self, service: str, body: bytes) -> bytes:
        """Return the reply of a service; several frames are joined. Raise :class:`NoReply`."""
        return b"".join(await self.call_frames(service, [body]))

    def close(self) -> None:
        """Close the socket. Calls in progress raise :class:`NoReply`."""
        self._link.carry_out(self._machine.stop())
        self._link.close()

    def _found(self, event: Event) -> None:
        if not isinstance(event, Answered | GaveUp):
            return
        future = self._futures.get(event.number)
        if future is None or future.done():
            return
        if isinstance(event, Answered):
            future.set_result(event.body)
        else:
            future.set_exception(NoReply("", event.reason))

    async def __aenter__(self) -> AsyncPipeline:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
