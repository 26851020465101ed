"""Receiver: runs the handlers of a request's events and decides its answer, for tasks and for threads.

::

    Policy.judge --> events --> each: done already? ---------------------> next
                                      running?  --> 503, Retry-After
                                      new --> handler --> returned ------> noted, next      all ended --> 204
                                                     '--> raised -------> not noted        --> 500, 503, 410
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hookwire.receive.core import BYTES_MAX, Event, Handshake, Policy, Refusal, Subscribing
from hookwire.receive.seen import Seen
from hookwire.signature import TOLERANCE_SECONDS
from hookwire.slots import Ending, ending_of, ending_of_call

__all__ = ["Gone", "Later", "ReceiverBase", "Response", "matches"]

_log = logging.getLogger("hookwire")
Handler = Callable[[Event], Any]
H = TypeVar("H", bound=Handler)
_RUNNING_RETRY_SECONDS: Final = 5


class Gone(Exception):
    """Raise it in a handler to end the subscription: the answer is 410."""


class Later(Exception):
    """Raise it in a handler to get the delivery again, not before ``seconds``: the answer is 503 with Retry-After."""

    def __init__(self, seconds: int = 60) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, for the framework to write."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


_DONE: Final = Response(204)


class ReceiverBase:
    """The arguments of every receiver; those of :class:`hookwire.receive.Policy`, and ``seen`` for repeats."""

    def __init__(
        self, secrets: str | Sequence[str] = (), *, hub_secrets: Sequence[str] = (),
        tolerance_seconds: float = TOLERANCE_SECONDS, bytes_max: int = BYTES_MAX,
        confirm: Callable[[Subscribing], bool] | None = None, origins: Collection[str] = (), seen: Seen | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.policy = Policy(
            secrets, hub_secrets=hub_secrets, tolerance_seconds=tolerance_seconds, bytes_max=bytes_max,
            confirm=confirm, origins=origins,
        )  # fmt: skip
        self._seen = seen or Seen()
        self._clock = clock
        self._handlers: list[tuple[str, Handler]] = []

    def on(self, pattern: str = "#") -> Callable[[H], H]:
        """Register the decorated function for topics: ``*`` is one word, ``#`` any number. The first that fits is run.

        An event that fits none is answered with 204 and logged.
        """

        def register(handler: H) -> H:
            self._handlers.append((pattern, handler))
            return handler

        return register

    def begin(self, method: str, headers: Mapping[str, str], body: bytes, query: str) -> list[Event] | Response:
        """Return the events of a request, or its answer."""
        found = self.policy.judge(method, headers, body, self._clock(), query)
        if isinstance(found, Refusal):
            return refused(found)
        if isinstance(found, Handshake):
            return Response(found.status, found.headers, found.body)
        return found

    async def answer_async(
        self, method: str, headers: Mapping[str, str], body: bytes, query: str = "", route: str = ""
    ) -> Response:
        """Return the answer to a request. A handler that is no coroutine function runs in a thread."""
        found = self.begin(method, headers, body, query)
        if isinstance(found, Response):
            return found
        for event in found:
            taken = _Taken(self._seen, route, event)
            if (stop := taken.begin()) is not None:
                if stop.status != _DONE.status:
                    return stop
                continue
            with taken:
                await _run(self._handler_of(event), event)
            if taken.answer is not None:
                return taken.answer
        return _DONE

    def answer(
        self, method: str, headers: Mapping[str, str], body: bytes, query: str = "", route: str = ""
    ) -> Response:
        """Return the answer to a request. Handlers are plain functions."""
        found = self.begin(method, headers, body, query)
        if isinstance(found, Response):
            return found
        for event in found:
            taken = _Taken(self._seen, route, event)
            if (stop := taken.begin()) is not None:
                if stop.status != _DONE.status:
                    return stop
                continue
            with taken:
                _raise_of(ending_of_call(self._handler_of(event), event), passing=SystemExit)
            if taken.answer is not None:
                return taken.answer
        return _DONE

    def _handler_of(self, event: Event) -> Handler:
        for pattern, handler in self._handlers:
            if matches(pattern, event.topic):
                return handler
        _log.warning("no handler fits the topic %r, so %s is not handled", event.topic, event.id)
        return _ignore


class _Taken:
    """One event while its handler runs: what the handler raises becomes an answer, and a note if it succeeds."""

    def __init__(self, seen: Seen, route: str, event: Event) -> None:
        self._seen = seen
        self._key = (route, event.id)
        self._event = event
        self.answer: Response | None = None

    def begin(self) -> Response | None:
        """Return 204 for a repeat and 503 while the first still runs; None: run the handler."""
        state = self._seen.begin(self._key, again=self._event.is_replay)
        if state == "running":
            return Response(503, {"Retry-After": str(_RUNNING_RETRY_SECONDS)})
        return _DONE if state == "done" else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        self._seen.end(self._key, done=error is None)
        if error is None:
            return False
        if isinstance(error, Gone):
            self.answer = Response(410)
        elif isinstance(error, Later):
            self.answer = Response(503, {"Retry-After": str(error.seconds)})
        elif isinstance(error, Exception):
            _log.error("the handler of %s (%s) failed", self._event.id, self._event.topic, exc_info=error)
            self.answer = Response(500)
        return isinstance(error, Exception)


async def _run(handler: Handler, event: Event) -> None:
    """Run a coroutine here and a plain function in a thread. Only a cancellation of the request is passed on as one."""
    if inspect.iscoroutinefunction(handler):
        ending = await ending_of(handler(event))
    else:
        ending = await asyncio.to_thread(ending_of_call, handler, event)
    task = asyncio.current_task()
    is_cancelled = task is not None and task.cancelling() > 0
    _raise_of(ending, passing=asyncio.CancelledError if is_cancelled else KeyboardInterrupt)


def _raise_of(ending: Ending, *, passing: type[BaseException]) -> None:
    """Raise what a handler raised as an ``Exception``, which fails the event alone; an interrupt and ``passing`` as
    they are.
    """
    error = ending.error
    if isinstance(error, (KeyboardInterrupt, GeneratorExit, passing)) or (
        isinstance(error, Exception) and not isinstance(error, StopIteration)
    ):
        raise error
    if error is not None:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


def refused(refusal: Refusal) -> Response:
    """Return the answer of a refusal, and log it."""
    _log.info("a delivery was refused with %d: %s", refusal.status, refusal.reason)
    headers = {"Content-Type": "text/plain; charset=utf-8", **refusal.headers}
    return Response(refusal.status, headers, refusal.reason.encode() + b"\n")


def matches(pattern: str, topic: str) -> bool:
    """Return whether a pattern fits a topic: ``*`` is one word, ``#`` any number of words, also none."""
    words = topic.split(".")
    fits = [True] + [False] * len(words)  # fits[i]: the pattern so far fits the first i words
    for part in pattern.split("."):
        if part == "#":
            for count in range(1, len(fits)):
                fits[count] = fits[count] or fits[count - 1]
        else:
            fits = [False] + [before and part in ("*", word) for before, word in zip(fits, words, strict=False)]
    return fits[-1]


def _ignore(_: Event) -> None:
    """Do nothing with an event that no handler wants."""
