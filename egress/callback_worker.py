"""Callback worker: lease work of subscriptions with a callback, POST it, record the answers.

::

    wake --> lease (bounded in all and for each callback) --> POST, signed --> record the answer
      ^                                                                              |
      +------------------------------------------------------------------------------+

A room subclasses it with the lease of its work, its form as a message, and the meaning of an answer. The lease lasts
longer than the POST may take, so that no other worker has the work meanwhile. Work that is not recorded is leased again
when its lease ends.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import structlog

from egress.callback import Callback, CallbackBook, CallbackMessage, CallbackOptions
from egress.client import NotSent, Outbound, OutboundError, ReadLimits, Request, Response
from runtime.pause import pause

__all__ = ["LEASED_EACH", "LEASE_MARGIN_SECONDS", "CallbackWorker"]

_log = structlog.get_logger(__name__)
LEASED_EACH = 4
"""How much work one lease takes for each callback."""
LEASE_MARGIN_SECONDS = 10.0
"""How much longer a lease lasts than its POST may take."""
_AT_ONCE = 64
_AT_ONCE_EACH = 8
_SILENT_AT_ONCE = _AT_ONCE // 2
"""As many POSTs at once to callbacks that are silent or slow, all together. The others keep the rest."""
_SILENT_FROM, _SILENCE_MAX = 2, 8
"""A POST without a prompt answer adds 2 to the silence of its callback, and one with such an answer takes 1 from it."""
_OF_A_GATEWAY = frozenset({502, 503, 504})
"""A gateway answers so for a service that does not."""
_PROMPT_SHARE = 0.25
"""A prompt answer comes within this part of the callback's time."""
_NOTED_MAX = 10_000
_UNASKED_SECONDS = 300.0
_RETRY_SECONDS = 0.5
_HEAD_BYTES = 64 * 1024


class CallbackWorker(ABC):
    """A service. Work is a mapping with at least ``subscription_id`` and ``version``.

    A subclass sets ``name`` and writes :meth:`lease`, :meth:`message` and :meth:`record`. An exception of a class in
    ``expected`` is an operating error of these methods; any other exception ends the process.
    """

    name: str
    expected: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self, outbound: Outbound, book: CallbackBook, options: CallbackOptions) -> None:
        self._outbound = outbound
        self._book = book
        self._options = options
        self._in_flight: Counter[int] = Counter()
        self._silence: dict[int, int] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._limits = ReadLimits(
            read_bytes_max=options.answer_bytes_max + _HEAD_BYTES, keep_bytes_max=options.answer_bytes_max
        )

    def poll_now(self) -> None:
        """Look for work at once."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the POSTs in flight and lease nothing more."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped."""
        async with asyncio.TaskGroup() as posts:
            while not self._stopping:
                self._wake.clear()
                if not await self._lease_and_post(posts):
                    await pause(self._wake, _UNASKED_SECONDS)

    @abstractmethod
    async def lease(self, full: Sequence[int], subscriptions: int) -> Sequence[Mapping[str, Any]]:
        """Lease work of at most ``subscriptions``, up to ``LEASED_EACH`` for each, but not of those in ``full``."""

    @abstractmethod
    def message(self, work: Mapping[str, Any]) -> CallbackMessage:
        """Return the message to POST for this work."""

    @abstractmethod
    async def record(self, work: Mapping[str, Any], answer: Response | str) -> None:
        """Settle the work by its answer. If there is no answer, ``answer`` is the text of the reason."""

    async def _lease_and_post(self, posts: asyncio.TaskGroup) -> bool:
        """Lease as much work as there is room for and begin to POST it. Return whether to lease again at once."""
        subscriptions = (_AT_ONCE - self._in_flight.total()) // LEASED_EACH
        if subscriptions <= 0:
            return False
        full = {one for one, count in self._in_flight.items() if count >= _AT_ONCE_EACH}
        silent = {one for one, silence in self._silence.items() if silence >= _SILENT_FROM}
        if silent:
            in_flight = sum(count for one, count in self._in_flight.items() if one in silent)
            room = (_SILENT_AT_ONCE - in_flight) // LEASED_EACH
            full |= silent if room <= 0 else set()
            subscriptions = min(subscriptions, room) if room > 0 else subscriptions
        try:
            asked_at = time.monotonic()
            leased = await self.lease([*full], subscriptions)
            book = await self._book.open({(work["subscription_id"], work["version"]) for work in leased})
        except self.expected as error:
            _log.warning("callback_work_not_leased", worker=self.name, error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        for work in leased:
            self._in_flight[work["subscription_id"]] += 1
            posts.create_task(self._work(work, book.get(work["subscription_id"]), asked_at), name=self.name)
        return bool(leased)

    async def _work(self, work: Mapping[str, Any], callback: Callback | None, asked_at: float) -> None:
        """POST the work and record its answer; an operating error is logged, and the lease ends by itself.

        ``asked_at``: the monotonic time from which the lease counts.
        """
        try:
            answer = await self._post(work, callback, asked_at)
            if callback is not None and callback.target is not None:
                self._note(work["subscription_id"], is_prompt=self._is_prompt(answer, callback))
            await self.record(work, answer)
        except NotSent:
            _log.warning("callback_work_not_sent", worker=self.name, work=str(work["id"]))
        except self.expected as error:
            _log.warning("callback_answer_not_recorded", worker=self.name, work=str(work["id"]), error=str(error))
        finally:
            self._in_flight[work["subscription_id"]] -= 1
            self._in_flight += Counter()  # drop subscriptions without work in flight
            self._wake.set()

    def _is_prompt(self, answer: Response | str, callback: Callback) -> bool:
        """Return whether this is an answer of the callback itself, and came soon. Slow ones hold the room as long as
        silent ones.
        """
        if isinstance(answer, str) or answer.status in _OF_A_GATEWAY:
            return False
        return answer.total_seconds < self._post_seconds(callback) * _PROMPT_SHARE

    def _post_seconds(self, callback: Callback) -> float:
        return callback.timeout_seconds or self._options.timeout_seconds

    def _note(self, subscription: int, *, is_prompt: bool) -> None:
        """Note how a POST to a callback was answered. Beyond 10,000 callbacks the longest unasked is forgotten."""
        silence = self._silence.pop(subscription, 0)
        silence = silence - 1 if is_prompt else min(silence + 2, _SILENCE_MAX)
        if silence > 0:
            self._silence[subscription] = silence
        if len(self._silence) > _NOTED_MAX:
            del self._silence[next(iter(self._silence))]

    async def _post(self, work: Mapping[str, Any], callback: Callback | None, asked_at: float) -> Response | str:
        """Return the answer, or the reason why there is none. NotSent: another worker may have leased the work."""
        if callback is None or callback.target is None:
            return callback.refusal if callback is not None else "the subscription has ended"
        message = self.message(work)
        headers = callback.sign(message.id, int(time.time()), message.body) + message.headers
        deadline = self._post_seconds(callback)
        not_after = asked_at + LEASE_MARGIN_SECONDS
        if message.seconds_max is not None:
            deadline = min(deadline, message.seconds_max)
            not_after = min(not_after, asked_at + message.seconds_max)
        try:
            return await self._outbound.send(
                Request(
                    "POST", callback.target, headers, message.body, deadline, limits=self._limits, not_after=not_after
                )
            )
        except OutboundError as error:
            return error.detail
