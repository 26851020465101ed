"""The events of a relay for the program that embeds it."""

import asyncio

import pytest

from relay.observer import Event, Observer


def test_a_handler_that_raises_a_cancellation_does_not_look_like_a_stop() -> None:
    """GB-02: its kind; the harvester ended without a word, and its relay went on running."""

    def cancels(_: Event) -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="raised CancelledError"):
        Observer("kafka", cancels).acquired("term 1")
