"""Transport: the I/O of a call, by ``httpx2``, or by ``httpx`` where only that is installed. This is its one owner.

Connections are opened at the first call, and again in a forked process or under another event loop. No redirect is
followed, and no answer is unpacked.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import ssl
import sys
import threading
import time
from types import ModuleType
from typing import Any, Final, TypeVar

from hookwire.client.exchange import Answer, NoAnswer, NotSent, Pause, Sending, Steps
from hookwire.client.noun import Place

__all__ = ["AsyncTransport", "Transport", "installed_library"]

T = TypeVar("T")
_MODULES: Final = ("httpx2", "httpx")
_CONNECTIONS_MAX: Final = 100
_IDLE_MAX: Final = 32
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_GRACE_SECONDS: Final = 0.25
"""The client's own time-outs end a request first: they know whether it was sent."""
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


def _module(given: Any) -> ModuleType:
    """Return the HTTP library: that of the caller's own client, or the one that is installed."""
    if given is not None:
        for kind in type(given).__mro__:
            root = kind.__module__.partition(".")[0]
            if root in _MODULES:
                return sys.modules[root]
        raise TypeError(f"http= is a client of httpx2 or httpx, not {type(given).__name__}")
    return installed_library()


def installed_library() -> ModuleType:
    """Return httpx2, or httpx where only that is installed; raise ImportError with the cure."""
    for name in _MODULES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ImportError("the client needs httpx2: pip install 'hookwire[http]'")


class _Wire:
    """What both transports do without I/O."""

    def __init__(self, place: Place, http: Any) -> None:
        self.place = place
        self._given = http
        self._library = _module(http)

    def _options(self) -> dict[str, Any]:
        limits = self._library.Limits(max_connections=_CONNECTIONS_MAX, max_keepalive_connections=_IDLE_MAX)
        return {"limits": limits, "timeout": None, "follow_redirects": False}

    def _request(self, client: Any, sending: Sending) -> Any:
        request = sending.request
        timeout = self._library.Timeout(sending.seconds)
        return client.build_request(
            request.method, self.place.base + request.path, content=request.content,
            headers=[(name, value.encode()) for name, value in (_HEADERS | dict(request.headers)).items()],
            timeout=timeout,
        )  # fmt: skip

    def _translated(self, error: Exception) -> NotSent | NoAnswer:
        library, reason = self._library, f"{type(error).__name__}: {error}".rstrip(": ")
        if isinstance(error, library.ConnectError | library.ConnectTimeout | library.PoolTimeout | library.ProxyError):
            return NotSent(reason, is_final=_is_certificate(error))
        return NoAnswer(reason, is_late=isinstance(error, library.TimeoutException))


class Transport(_Wire):
    """For threads: any number may use it at once."""

    def __init__(self, place: Place, http: Any = None) -> None:
        super().__init__(place, http)
        self._lock = threading.Lock()
        self._client: Any = None
        self._process = 0
        self._pause = threading.Event()  # is never set

    def run(self, steps: Steps[T]) -> T:
        """Return the result of the steps."""
        got: Any = None
        failure: NotSent | NoAnswer | None = None
        while True:
            try:
                step = steps.send(got) if failure is None else steps.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            got, failure = None, None
            if isinstance(step, Pause):
                self._pause.wait(step.seconds)
                continue
            try:
                got = self._send(step)
            except (NotSent, NoAnswer) as error:
                failure = error

    def close(self) -> None:
        """Close the connections; the next call opens new ones. The caller's own client stays open."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            client.close()

    def _send(self, sending: Sending) -> Answer:
        client = self._given or self._opened()
        until = time.monotonic() + sending.seconds
        try:
            response = client.send(self._request(client, sending), stream=True, follow_redirects=False)
            content = response.content if response.is_stream_consumed else _read(response, until)
        except self._library.TransportError as error:
            raise self._translated(error) from error
        return Answer(response.status_code, response.headers, content)

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None or self._process != os.getpid():
                self._client, self._process = self._library.Client(**self._options()), os.getpid()
            return self._client


def _read(response: Any, until: float) -> bytes:
    """Return the body. A thread has no deadline of its own, so each part of it is looked at."""
    parts, size = [], 0
    try:
        for part in response.iter_raw():
            parts.append(part)
            size += len(part)
            if time.monotonic() > until:
                raise NoAnswer("the answer did not end in time", is_late=True)
            if size > _ANSWER_BYTES_MAX:
                raise NoAnswer(f"the answer is larger than {_ANSWER_BYTES_MAX} bytes")
    finally:
        response.close()
    return b"".join(parts)


class AsyncTransport(_Wire):
    """For tasks of one event loop at a time."""

    def __init__(self, place: Place, http: Any = None) -> None:
        super().__init__(place, http)
        self._client: Any = None
        self._home: tuple[asyncio.AbstractEventLoop, int] | None = None

    async def run(self, steps: Steps[T]) -> T:
        """Return the result of the steps."""
        got: Any = None
        failure: NotSent | NoAnswer | None = None
        while True:
            try:
                step = steps.send(got) if failure is None else steps.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            got, failure = None, None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            try:
                got = await self._send(step)
            except (NotSent, NoAnswer) as error:
                failure = error

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones. The caller's own client stays open."""
        client, self._client = self._client, None
        if client is not None and self._home == (asyncio.get_running_loop(), os.getpid()):
            await client.aclose()

    async def _send(self, sending: Sending) -> Answer:
        client = self._given or self._opened()
        try:
            async with asyncio.timeout(sending.seconds + _GRACE_SECONDS):
                response = await client.send(self._request(client, sending), follow_redirects=False)
        except TimeoutError:
            raise NoAnswer("the answer did not end in time", is_late=True) from None
        except self._library.TransportError as error:
            raise self._translated(error) from error
        return Answer(response.status_code, response.headers, response.content)

    def _opened(self) -> Any:
        home = (asyncio.get_running_loop(), os.getpid())
        if self._client is None or self._home != home:
            self._client, self._home = self._library.AsyncClient(**self._options()), home
        return self._client


def _is_certificate(error: BaseException) -> bool:
    """Return whether the server's certificate was refused: then no repeat helps."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
