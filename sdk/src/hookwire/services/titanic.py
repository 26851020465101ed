"""Clients of Titanic, for stored requests that survive the end of caller, worker and broker (9/TSP)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Self

from hookwire.services.async_client import AsyncClient
from hookwire.services.client import Client
from hookwire.services.machine import Frames
from hookwire.services.mdp import Version
from hookwire.services.titanic_steps import Call, Steps, TitanicOptions, TitanicSteps
from hookwire.services.transport import Curve

__all__ = ["AsyncTitanicClient", "TitanicClient", "TitanicOptions"]


class TitanicClient:
    """A client for threads. With the id of a request, any client can fetch its reply later, over any connection.

    A submission without an answer is repeated, so a request may be stored twice; it then runs twice.
    """

    def __init__(
        self,
        *endpoints: str,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        pause_seconds: float = 0.0,
        version: Version = "0.1",
        curve: Curve | None = None,
        options: TitanicOptions | None = None,
    ) -> None:
        self._client = Client(
            *endpoints, timeout_seconds=timeout_seconds, tries=tries, pause_seconds=pause_seconds, version=version,
            curve=curve,
        )  # fmt: skip
        self._steps = TitanicSteps(options or TitanicOptions(), time.monotonic)
        self._closed = threading.Event()

    def submit(self, service: str, *body: bytes) -> str:
        """Return the id of a request that is stored now. Raise :class:`RequestRefused` or :class:`NoReply`."""
        return self._run(self._steps.submit(service, body or (b"",)))[0].decode("ascii")

    def fetch(self, request_id: str) -> list[bytes] | None:
        """Return the frames of the reply, or None if there is no reply yet.

        Raise :class:`RequestUnknown` for an id that was closed, has expired or never existed. Raise :class:`NoReply` if
        Titanic does not answer.
        """
        status, *frames = self._run(self._steps.fetch(request_id))
        return frames if status == b"200" else None

    def wait(self, request_id: str, timeout_seconds: float) -> list[bytes]:
        """Return the frames of the reply as soon as it is there. Raise :class:`StillPending` after the time."""
        return self._run(self._steps.wait(request_id, timeout_seconds))

    def close_request(self, request_id: str) -> None:
        """Let Titanic forget a request and its reply; a request that was not executed never is."""
        self._run(self._steps.close(request_id))

    def call(self, service: str, body: bytes, timeout_seconds: float = 60.0) -> bytes:
        """Submit, wait and close. After :class:`StillPending` its ``request_id`` fetches the reply later."""
        return b"".join(self._run(self._steps.call(service, [body], timeout_seconds)))

    def close(self) -> None:
        """Close the connection. Requests stay stored. A call in another thread raises :class:`ClientClosed`."""
        self._closed.set()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, steps: Steps) -> Frames:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Call):
                    answer = self._client.call_frames(step.service, step.body)
                else:
                    self._closed.wait(step.seconds)
                    answer = []
                step = steps.send(answer)
        except StopIteration as end:
            result: Frames = end.value
            return result


class AsyncTitanicClient:
    """A client for asyncio, with many concurrent calls. Use it inside ``async with``."""

    def __init__(
        self,
        *endpoints: str,
        window: int = 32,
        timeout_seconds: float = 2.5,
        tries: int = 3,
        version: Version = "0.1",
        curve: Curve | None = None,
        options: TitanicOptions | None = None,
    ) -> None:
        self._client = AsyncClient(
            *endpoints, window=window, timeout_seconds=timeout_seconds, tries=tries, version=version, curve=curve
        )
        self._steps = TitanicSteps(options or TitanicOptions(), time.monotonic)

    async def submit(self, service: str, *body: bytes) -> str:
        """Return the id of a request that is stored now. Raise :class:`RequestRefused` or :class:`NoReply`."""
        return (await self._run(self._steps.submit(service, body or (b"",))))[0].decode("ascii")

    async def fetch(self, request_id: str) -> list[bytes] | None:
        """Return the frames of the reply, or None if there is no reply yet. Raise as :meth:`TitanicClient.fetch`."""
        status, *frames = await self._run(self._steps.fetch(request_id))
        return frames if status == b"200" else None

    async def wait(self, request_id: str, timeout_seconds: float) -> list[bytes]:
        """Return the frames of the reply as soon as it is there. Raise :class:`StillPending` after the time."""
        return await self._run(self._steps.wait(request_id, timeout_seconds))

    async def close_request(self, request_id: str) -> None:
        """Let Titanic forget a request and its reply; a request that was not executed never is."""
        await self._run(self._steps.close(request_id))

    async def call(self, service: str, body: bytes, timeout_seconds: float = 60.0) -> bytes:
        """Submit, wait and close. After :class:`StillPending` its ``request_id`` fetches the reply later."""
        return b"".join(await self._run(self._steps.call(service, [body], timeout_seconds)))

    def close(self) -> None:
        """Close the connections. Requests stay stored."""
        self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _run(self, steps: Steps) -> Frames:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Call):
                    answer = await self._client.call_frames(step.service, step.body)
                else:
                    await asyncio.sleep(step.seconds)
                    answer = []
                step = steps.send(answer)
        except StopIteration as end:
            result: Frames = end.value
            return result
