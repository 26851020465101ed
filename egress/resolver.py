"""Resolve host names, with a deadline, and so that one stalled zone does not stop the others.

`getaddrinfo` cannot be cancelled, and asyncio runs it on the thread pool that everything else shares: forty stalled
lookups stop all connecting (EG-06). So lookups have daemon threads of their own, at most `threads_max`. Names under one
zone (their last two labels) use at most `zone_threads_max`. Callers for the same name share one lookup. A caller waits
`deadline_seconds`; the thread stays until the platform's resolver gives up.

Nothing is cached: every new connection is resolved and judged afresh (EG-05).
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Protocol

from egress.guard import Address

Lookup = Callable[[str], list[str]]
"""Blocking: host name in, address texts out in order of preference; raises OSError."""

Outcome = list[str] | Exception


class ResolveFailed(Exception):
    """The name gave no addresses; `detail` says why in our own words."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Resolver(Protocol):
    """Turns a host name into addresses; safe to call concurrently, cancelling a call abandons it."""

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """Return all addresses of a name, best first, at least one.

        Raises:
            ResolveFailed: there are none, or not in time.
        """
        ...


class ThreadResolver:
    """The platform's resolver behind bounded daemon threads; belongs to the event loop that uses it.

    Args:
        deadline_seconds: how long a caller waits, queueing included.
        threads_max: lookups under way in all.
        zone_threads_max: lookups under way for names that end in the same two labels.
        answers_max: answers looked at; the rest is never judged and never dialled.
        lookup: the blocking lookup.
    """

    def __init__(
        self,
        *,
        deadline_seconds: float = 2.0,
        threads_max: int = 64,
        zone_threads_max: int = 4,
        answers_max: int = 64,
        lookup: Lookup | None = None,
    ) -> None:
        self._deadline_seconds = deadline_seconds
        self._zone_threads_max = zone_threads_max
        self._answers_max = answers_max
        self._lookup = lookup or platform_lookup
        self._threads = asyncio.Semaphore(threads_max)
        self._zones: dict[str, _Zone] = {}
        self._running: dict[str, asyncio.Future[Outcome]] = {}

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """See `Resolver.resolve`."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                # Shielded, because other callers may wait for the same lookup.
                outcome = await asyncio.shield(self._running.get(host) or await self._start(host))
        except TimeoutError:
            raise ResolveFailed("the host name was not resolved in time") from None
        if isinstance(outcome, OSError | UnicodeError):  # the platform encodes names itself and refuses some
            raise ResolveFailed("the host name could not be resolved") from outcome
        if isinstance(outcome, Exception):
            raise outcome
        addresses = _parsed(outcome[: self._answers_max])
        if not addresses:
            raise ResolveFailed("the host name has no address")
        return addresses

    async def _start(self, host: str) -> asyncio.Future[Outcome]:
        zone = self._zones.setdefault(_zone_of(host), _Zone(self._zone_threads_max))
        zone.users += 1
        try:
            # Zone first: callers that queue behind a stalled zone must hold none of the shared threads.
            await zone.threads.acquire()
            try:
                await self._threads.acquire()
            except BaseException:
                zone.threads.release()
                raise
        except BaseException:
            self._leave(host, zone)
            raise
        running = self._running.get(host)
        if running is not None:
            self._release(host, zone)
            return running
        return self._launch(host, zone)

    def _launch(self, host: str, zone: "_Zone") -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._running[host] = future

        def settle(outcome: Outcome) -> None:
            del self._running[host]
            self._release(host, zone)
            future.set_result(outcome)

        def run() -> None:
            outcome = _outcome(self._lookup, host)
            with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=run, name=f"resolve-{host[:32]}", daemon=True).start()
        return future

    def _release(self, host: str, zone: "_Zone") -> None:
        self._threads.release()
        zone.threads.release()
        self._leave(host, zone)

    def _leave(self, host: str, zone: "_Zone") -> None:
        zone.users -= 1
        if zone.users == 0:
            self._zones.pop(_zone_of(host), None)


class _Zone:
    """The limit on one zone's lookups, and the number of callers that use this record."""

    __slots__ = ("threads", "users")

    def __init__(self, threads_max: int) -> None:
        self.threads = asyncio.Semaphore(threads_max)
        self.users = 0


def platform_lookup(host: str) -> list[str]:
    """Ask the platform's resolver; return addresses in its order of preference, without repeats."""
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))


def _outcome(lookup: Lookup, host: str) -> Outcome:
    try:
        return lookup(host)
    except Exception as error:  # noqa: BLE001 - border of the thread: the caller raises it again in its own task
        return error


def _parsed(texts: list[str]) -> tuple[Address, ...]:
    return tuple(ip_address(text) for text in texts)


def _zone_of(host: str) -> str:
    return ".".join(host.rsplit(".", 2)[-2:])
