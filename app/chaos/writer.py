"""A writer: the only publisher of a key over HTTP, which repeats until it has a clear answer.

::

    n := n + 1 --> note "unknown" --> POST with Idempotency-Key run/topic/key/n --> 202      note "ok", pause, next n
                        ^                                                      --> 4xx      note "fail", next n
                        +------ pause, the other process, attempt + 1 <------- --> anything else, or nothing in time

Every attempt of one n carries the same Idempotency-Key, so however often it is repeated there is one event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.chaos.client import ChaosClient, ClientAnswer, NoAnswer
from app.chaos.history import Attempt, HistoryWriter, PublishOutcome
from app.chaos.mark import Mark
from runtime.pause import pause

__all__ = ["Writer", "WriterOptions"]

_STILL_RUNS = b"idempotency-key-in-flight"
_TURN_EVENTS = 10
"""The number of events after which the writer uses another process. So all processes stay busy, also after one was
down.
"""


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """Times and ports of a writer: ``pause_seconds`` between two events; ``timeout_seconds`` for an answer;
    ``repeat_seconds`` between attempts.

    After a stop, the event under way is given up (its outcome stays unknown) when it has no answer in
    ``patience_seconds``. ``ports`` are those of the processes; ``first`` says which is used first.
    """

    run: str
    topic: str
    key: str | None
    ports: Sequence[int]
    first: int = 0
    pause_seconds: float = 0.05
    timeout_seconds: float = 1.5
    repeat_seconds: float = 0.1
    patience_seconds: float = 10.0
    payload_bytes_min: int = 0


class Writer:
    """Publishes until stopped; ``on_ok`` is called after each accepted event."""

    def __init__(self, history: HistoryWriter, options: WriterOptions, on_ok: Callable[[], None]) -> None:
        self._history = history
        self._options = options
        self._on_ok = on_ok
        self._clients = [ChaosClient(port, options.timeout_seconds) for port in options.ports]
        self._current = options.first % len(options.ports)
        self._stopping = asyncio.Event()
        self._stop_by = float("inf")

    def stop(self) -> None:
        """Begin no further event; the one under way is repeated until it is clear, within the patience."""
        self._stop_by = time.monotonic() + self._options.patience_seconds
        self._stopping.set()

    async def run(self) -> None:
        """Publish until stopped."""
        options = self._options
        n = 0
        try:
            while not self._stopping.is_set():
                n += 1
                await self._publish(Mark(options.run, options.topic, options.key, n))
                if n % _TURN_EVENTS == 0:
                    self._next_client()
                await pause(self._stopping, options.pause_seconds)
        finally:
            for client in self._clients:
                client.close()

    async def _publish(self, mark: Mark) -> None:
        """Publish one event, attempt after attempt."""
        attempt = 0
        body = mark.to_payload(time.time(), self._options.payload_bytes_min)
        while time.monotonic() < self._stop_by:
            attempt += 1
            sent_at = time.time()
            self._history.record(Attempt(mark, PublishOutcome.UNKNOWN, None, attempt, sent_at))
            answer = await self._attempt(mark, body)
            outcome = _outcome(answer)
            if answer is not None and outcome is not PublishOutcome.UNKNOWN:
                event_id = json.loads(answer.body)["id"] if outcome is PublishOutcome.OK else None
                self._history.record(Attempt(mark, outcome, event_id, attempt, sent_at))
                if outcome is PublishOutcome.OK:
                    self._on_ok()
                return
            self._next_client()
            await asyncio.sleep(self._options.repeat_seconds)

    def _next_client(self) -> None:
        self._current = (self._current + 1) % len(self._clients)

    async def _attempt(self, mark: Mark, body: bytes) -> ClientAnswer | None:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f"{mark.run}/{mark.topic}/{mark.key}/{mark.n}",
        }
        if mark.key is not None:
            headers["Hookwire-Key"] = mark.key
        try:
            return await self._clients[self._current].request("POST", f"/topics/{mark.topic}/events", body, headers)
        except NoAnswer:
            return None


def _outcome(answer: ClientAnswer | None) -> PublishOutcome:
    """Return what an answer says. While the first request with a key still runs, the second one says nothing."""
    if answer is None or answer.status >= 500 or _STILL_RUNS in answer.body:
        return PublishOutcome.UNKNOWN
    return PublishOutcome.OK if answer.status < 300 else PublishOutcome.FAIL
