"""AMQP notifications end when they are asked to, whatever the client does with a cancellation."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from relay.amqp import notifications
from relay.amqp.notifications import AmqpNotifications
from relay.amqp.options import AmqpOptions
from relay.sink import SinkUnavailable


class LossyBroker:
    """A client whose n-th answer comes together with a cancellation, which it loses, as `asyncio.wait_for` did."""

    def __init__(self, answer: int, error: Exception | None = None) -> None:
        self.reached = asyncio.Event()
        self._left = answer
        self._error = error

    async def answer(self, result: Any = None) -> Any:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self._error is not None:
                    raise self._error from None
        return result

    async def connect(self, *_: object) -> Any:
        queue = MagicMock(consume=lambda _: self.answer())
        channel = MagicMock(set_qos=lambda **_: self.answer(), get_queue=lambda _: self.answer(queue))
        return await self.answer(MagicMock(channel=lambda: self.answer(channel), close=AsyncMock()))


@pytest.mark.parametrize(
    ("answer", "error"),
    [(1, None), (2, None), (3, None), (4, None), (5, None), (1, SinkUnavailable("refused")), (3, TimeoutError())],
)
async def test_a_cancellation_that_the_client_loses_still_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, answer: int, error: Exception | None
) -> None:
    """JB-22: a worker that was stopped while it connected waited for ever."""
    broker = LossyBroker(answer, error)
    monkeypatch.setattr(notifications, "connect", broker.connect)
    monkeypatch.setattr(notifications, "declare_missing", AsyncMock())
    listening = asyncio.create_task(AmqpNotifications(AmqpOptions("amqp://localhost", "abc")).listen(MagicMock()))
    await broker.reached.wait()
    listening.cancel()
    await asyncio.wait([listening], timeout=10)
    was_ended = listening.done()
    listening.cancel()
    await asyncio.wait([listening])
    assert was_ended
