"""Pulling: a loop over the events of a pull subscription, whose body is the work on one event.

::

    with hub.pull("orders.*", name="billing") as events:
        for event in events:          the body ends        -> acknowledged
            ...                       break, an exception  -> released, with all that were not begun

Leases are extended while the body runs. A hub that is away is tried again, for ever, with growing pauses.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from hookwire import models
from hookwire.client.noun import UNSET, new_key
from hookwire.error import ApiRefused, HookwireError, NotFound
from hookwire.received import ReceivedEvent

if TYPE_CHECKING:
    from hookwire.client.nouns import AsyncSubscriptions, Subscriptions

__all__ = ["AsyncPull", "Pull", "PullOptions"]

_log = logging.getLogger("hookwire")
_WAIT_SECONDS: Final = 20.0
_LIFETIME_SECONDS: Final = 600
"""A subscription without a name ends this long after the last fetch, if its program could not delete it."""
_FLUSH_SECONDS: Final = 1.0
_PAUSE_SECONDS_MAX: Final = 30.0
_PASSING: Final = frozenset({408, 425, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class PullOptions:
    """What is fetched, and how. With ``name`` the subscription stays after the loop, and is found again by its name."""

    topic: str
    name: str | None = None
    ordered: bool = False
    filter: Mapping[str, Any] | None = None
    start: str | None = None
    batch: int = 10
    lease_seconds: float = 60.0

    def creation(self, key: str) -> dict[str, Any]:
        """Return the arguments that create the subscription."""
        kept = self.name is not None
        return {
            "topic": self.topic, "name": self.name, "ordered": self.ordered, "filter": self.filter,
            "start": self.start if self.start is not None else UNSET, "idempotency_key": key,
            "lifetime_seconds": None if kept else _LIFETIME_SECONDS, "on_end": "dead_letters" if kept else "drop",
        }  # fmt: skip

    def is_found(self, found: models.Subscription) -> bool:
        """Return whether this is the subscription of that name."""
        return (found.protocol, found.name, found.topic) == ("pull", self.name, self.topic)

    def key(self) -> str:
        """Return an idempotency key: two programs that begin at once make one subscription of a name."""
        return new_key() if self.name is None else f"pull {self.topic} {self.name}"[:255]


@dataclass(slots=True)
class _Held:
    """The receipts of events that were fetched. ``done`` are not acknowledged yet."""

    waiting: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    done_since: float = 0.0

    def finish(self, receipt: str) -> None:
        if not self.done:
            self.done_since = time.monotonic()
        self.waiting.remove(receipt)
        self.done.append(receipt)

    def is_due(self) -> bool:
        return bool(self.done) and (not self.waiting or time.monotonic() - self.done_since >= _FLUSH_SECONDS)

    def taken(self) -> list[str]:
        done, self.done = self.done, []
        return done

    def receipts(self) -> list[str]:
        return [*self.waiting, *self.done]


class _Pauses:
    """Growing pauses while the hub is away."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, error: HookwireError) -> float:
        """Return the next pause; raise an error that no repeat cures."""
        if isinstance(error, ApiRefused) and error.status not in _PASSING:
            raise error
        self._failures += 1
        pause = min(_PAUSE_SECONDS_MAX, 0.2 * 2.0 ** min(self._failures, 10))
        _log.warning("events cannot be fetched, and are tried again in %.1f s: %s", pause, error)
        return pause

    def over(self) -> None:
        self._failures = 0


class Pull:
    """The events of a pull subscription, in a ``with`` block of one thread."""

    def __init__(self, subscriptions: Subscriptions, options: PullOptions) -> None:
        self._subscriptions = subscriptions
        self._options = options
        self._held = _Held()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._extending: threading.Thread | None = None
        self.subscription_id = ""

    def __enter__(self) -> Self:
        self.subscription_id = self._found() or self._created()
        self._end.clear()
        self._extending = threading.Thread(target=self._extend, name="hookwire leases", daemon=True)
        self._extending.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        assert self._extending is not None, "begun by __enter__"
        self._extending.join()
        with self._lock:
            done, left = self._held.taken(), list(self._held.waiting)
            self._held.waiting.clear()
        self._settle(lambda: self._subscriptions.ack(self.subscription_id, receipts=done), done)
        if self._options.name is None:
            self._settle(lambda: self._subscriptions.delete(self.subscription_id), ["the subscription"])
        else:
            self._settle(lambda: self._subscriptions.nack(self.subscription_id, receipts=left), left)

    def __iter__(self) -> Iterator[ReceivedEvent]:
        pauses = _Pauses()
        while True:
            try:
                items = self._fetch()
            except HookwireError as error:
                self._end.wait(pauses.after(error))
                continue
            pauses.over()
            for item in items:
                yield _event_of(item)
                with self._lock:
                    self._held.finish(item.receipt)
                    done = self._held.taken() if self._held.is_due() else []
                self._settle(lambda done=done: self._subscriptions.ack(self.subscription_id, receipts=done), done)  # type: ignore[misc]

    def _fetch(self) -> Sequence[models.Pulled]:
        options = self._options
        items = self._subscriptions.dequeue(
            self.subscription_id, max=options.batch, lease_seconds=options.lease_seconds, wait_seconds=_WAIT_SECONDS,
            timeout_seconds=_WAIT_SECONDS + 30,
        )  # fmt: skip
        with self._lock:
            self._held.waiting += [item.receipt for item in items]
        return items

    def _found(self) -> str | None:
        if self._options.name is None:
            return None
        for one in self._subscriptions.list(topic=self._options.topic):
            if self._options.is_found(one):
                return one.id
        return None

    def _created(self) -> str:
        made = self._subscriptions.create_pull(**self._options.creation(self._options.key()))
        try:
            return self._subscriptions.get(made.id).id
        except NotFound:  # the kept answer tells of one that was deleted since
            return self._subscriptions.create_pull(**self._options.creation(new_key())).id

    def _extend(self) -> None:
        seconds = self._options.lease_seconds
        while not self._end.wait(seconds / 3):
            with self._lock:
                held = self._held.receipts()
            self._settle(
                lambda held=held: self._subscriptions.extend(  # type: ignore[misc]
                    self.subscription_id, receipts=held, lease_seconds=seconds
                ),
                held,
            )

    def _settle(self, verb: Callable[[], Any], receipts: Sequence[str]) -> None:
        """Do it, or say that it failed: the hub hands these events out again after their lease."""
        if receipts:
            with _said():
                _tell_stale(verb())


class AsyncPull:
    """The events of a pull subscription, in an ``async with`` block of one task."""

    def __init__(self, subscriptions: AsyncSubscriptions, options: PullOptions) -> None:
        self._subscriptions = subscriptions
        self._options = options
        self._held = _Held()
        self._leases = self._leased()
        self.subscription_id = ""

    async def __aenter__(self) -> Self:
        self.subscription_id = await self._found() or await self._created()
        self._leases = self._leased()
        await self._leases.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leases.__aexit__(None, None, None)
        left, self._held.waiting = self._held.waiting, []
        await self._acknowledge(self._held.taken())
        with _said():
            if self._options.name is None:
                await self._subscriptions.delete(self.subscription_id)
            elif left:
                await self._subscriptions.nack(self.subscription_id, receipts=left)

    async def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        pauses = _Pauses()
        while True:
            try:
                items = await self._fetch()
            except HookwireError as error:
                await asyncio.sleep(pauses.after(error))
                continue
            pauses.over()
            for item in items:
                yield _event_of(item)
                self._held.finish(item.receipt)
                if self._held.is_due():
                    await self._acknowledge(self._held.taken())

    async def _fetch(self) -> Sequence[models.Pulled]:
        options = self._options
        items = await self._subscriptions.dequeue(
            self.subscription_id, max=options.batch, lease_seconds=options.lease_seconds, wait_seconds=_WAIT_SECONDS,
            timeout_seconds=_WAIT_SECONDS + 30,
        )  # fmt: skip
        self._held.waiting += [item.receipt for item in items]
        return items

    async def _found(self) -> str | None:
        if self._options.name is None:
            return None
        async for one in self._subscriptions.list(topic=self._options.topic):
            if self._options.is_found(one):
                return one.id
        return None

    async def _created(self) -> str:
        made = await self._subscriptions.create_pull(**self._options.creation(self._options.key()))
        try:
            return (await self._subscriptions.get(made.id)).id
        except NotFound:  # the kept answer tells of one that was deleted since
            return (await self._subscriptions.create_pull(**self._options.creation(new_key()))).id

    @contextlib.asynccontextmanager
    async def _leased(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            extending = tasks.create_task(self._extend(), name="hookwire leases")
            try:
                yield
            finally:
                extending.cancel()

    async def _extend(self) -> None:
        seconds = self._options.lease_seconds
        while True:
            await asyncio.sleep(seconds / 3)
            if held := self._held.receipts():
                with _said():
                    answer = await self._subscriptions.extend(
                        self.subscription_id, receipts=held, lease_seconds=seconds
                    )
                    _tell_stale(answer)

    async def _acknowledge(self, receipts: Sequence[str]) -> None:
        if receipts:
            with _said():
                _tell_stale(await self._subscriptions.ack(self.subscription_id, receipts=receipts))


@contextlib.contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except HookwireError as error:
        _log.warning("events could not be settled, and are handed out again after their lease: %s", error)


def _tell_stale(settled: Sequence[models.Settled] | None) -> None:
    stale = [one.receipt for one in settled or () if one.state == "stale"]
    if stale:
        _log.warning("the lease of %d events ended before they were settled; they are handed out again", len(stale))


def _event_of(item: models.Pulled) -> ReceivedEvent:
    event = item.event
    body = event.payload.encode() if event.payload is not None else base64.b64decode(event.payload_base64 or "")
    return ReceivedEvent(
        event.id, event.topic, event.key, event.sequence, event.accepted_at, event.content_type, event.headers, body,
        is_replay="hookwire-replay" in event.headers, attempts=item.attempts,
    )  # fmt: skip
