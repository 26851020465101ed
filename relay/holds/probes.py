"""Hold probes: send held records of one topic at a time, to find whether its destination takes records again.

A destination that has refused a record is suspect, and probed while nothing is in flight, so one task at a time touches
the holds. Probes come after claims: one topic at a time where nothing else waits, otherwise seldom, so that they take a
small share of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from relay.holds.hold import DueTopic, Hold, Holds
from relay.key_order import one_topic_of_each_key
from relay.record import Record
from relay.sink import Features, Receipt, Term
from runtime.semaphore import all_of
from runtime.wake import Wake

__all__ = ["HoldProbes"]

_HOLDS_SECONDS = 0.25  # between two queries of the holds
_NO_HOLDS_SECONDS = 5.0  # the same while no hold is known, because an operator may add a hold
_DRAIN_BATCHES_MAX = 8  # batches of one hold in a row; then the other holds have a turn
_BUSY_BATCHES_MAX = 2  # the same while other records wait: a probe, and one batch
_BUSY_SECONDS = 1.0  # the least pause after a probe that was refused, while other records wait
_BUSY_SHARE = 20.0  # and as a multiple of the time that it took
_HEADS_FIRST = 40  # holds of keys that are probed together; what others publish meanwhile waits for these
_HEADS_MAX = 200  # the same for the topic that has taken one of them at its last probe


class HoldProbes:
    """Probes the holds of one partition group. ``send`` sends held records as a batch; ``is_over``: the stream ends."""

    def __init__(
        self, features: Features, holds: Holds, wake: Wake,
        send: Callable[[Term, Sequence[Record]], Awaitable[Receipt]], is_over: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._features = features
        self._holds = holds
        self._wake = wake
        self._send = send
        self._is_over = is_over
        self._due_at = 0.0
        self._suspects_due_at = 0.0
        self._taker: tuple[str, str] | None = None

    def soon(self, *, is_known: bool) -> None:
        """Ask for due holds at once if a hold ``is_known`` to be due, else shortly, because one was made."""
        self._due_at = 0.0 if is_known else min(self._due_at, time.monotonic() + _HOLDS_SECONDS)

    async def probe(self, term: Term, slots: asyncio.Semaphore, overlap: int, *, is_busy: bool) -> None:
        """Probe the topic that is due for longest, with nothing else in flight: all ``overlap`` slots are held. While
        other records wait, do so seldom unless the topic takes its records.
        """
        now = time.monotonic()
        if now < self._due_at or (is_busy and now < self._suspects_due_at):
            return
        due = await self._holds.due(term)
        self._due_at = now + (_HOLDS_SECONDS if self._holds.any_active else _NO_HOLDS_SECONDS)
        if not due:
            return
        self._wake.busy()
        async with all_of(slots, overlap):
            began_at = time.monotonic()
            was_taken = not self._is_over() and await self._probe(term, due[0], is_busy=is_busy)
        took = time.monotonic() - began_at
        self._suspects_due_at = began_at + took + (took if was_taken else max(_BUSY_SECONDS, took * _BUSY_SHARE))
        if len(due) > 1 or was_taken:
            self._due_at = 0.0
            self._wake.notify()

    async def _probe(self, term: Term, due: DueTopic, *, is_busy: bool) -> bool:
        """Probe a topic, and continue with its records where it takes them; return whether it took any."""
        if due.is_whole:
            return await self._drain(term, due, Hold(due.tenant, due.topic, ""), is_busy=is_busy)
        topic = (due.tenant, due.topic)
        limit = _HEADS_MAX if topic == self._taker else _HEADS_FIRST
        heads = await self._holds.heads(term, due, limit, self._features.batch_bytes_max)
        was_taken = await self._send_heads(term, due, heads)
        if was_taken:
            self._taker = topic
        elif topic == self._taker:
            self._taker = None
        for hold in (await self._holds.lift(term, list(heads)))[: 1 if is_busy else None]:
            if was_taken and not self._is_over():
                await self._drain(term, due, hold, is_busy=is_busy)
        return was_taken

    async def _send_heads(self, term: Term, due: DueTopic, heads: Mapping[Hold, Record | None]) -> bool:
        """Send the oldest record of each of a topic's held keys together; the second time without the refused ones.
        Return whether any was taken.
        """
        holds = {record.id: hold for hold, record in heads.items() if record is not None}
        left = [record for record in heads.values() if record is not None]
        for _ in range(2):
            if not left:
                break
            receipt = await self._send(term, left)
            kept = await self._holds.give_up(term, receipt.refused)
            blamed = next((refusal for refusal in kept if refusal.scope == "topic"), None)
            refused = {holds[refusal.record.id].key: refusal for refusal in kept}
            if blamed is not None:
                refused = {hold.key: blamed for hold in holds.values()} | refused
            await self._holds.postpone(term, due, refused)
            if receipt.acknowledged or blamed is not None or not receipt.refused or self._is_over():
                return bool(receipt.acknowledged)
            done = {refusal.record.id for refusal in receipt.refused}
            left = [record for record in left if record.id not in done]
        return False

    async def _drain(self, term: Term, due: DueTopic, hold: Hold, *, is_busy: bool) -> bool:
        """Probe a hold with its oldest record, then send the rest in order; lift it when it is empty. Return whether a
        record was taken.
        """
        features = self._features
        limit, was_taken = 1, False
        for _ in range(_BUSY_BATCHES_MAX if is_busy else _DRAIN_BATCHES_MAX):
            records = await self._holds.claim(term, hold, limit, features.batch_bytes_max)
            if term.order_scope == "key":
                records = one_topic_of_each_key(records)
            if not records:
                await self._holds.lift(term, [hold])
                return True
            receipt = await self._send(term, records)
            was_taken = was_taken or bool(receipt.acknowledged)
            kept = await self._holds.give_up(term, receipt.refused)
            poison = [refusal for refusal in kept if hold.key == "" and refusal.scope == "record"]
            if poison:
                await self._holds.single_out(term, poison)
            elif kept:
                await self._holds.postpone(term, due, {hold.key: kept[0]}, was_taken=was_taken)
                return was_taken
            if self._is_over() or not (receipt.acknowledged or receipt.refused):
                return was_taken
            limit = features.batch_records_max
        return was_taken
