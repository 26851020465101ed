"""db/foreign.py: what a client library throws out of its own internals is told from a bug of ours by its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiormq.connection import FrameReceiver

from db.foreign import origin


def error_of(run: Callable[[], object]) -> BaseException:
    """What a call raises."""
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - it is what is looked at
        return error
    raise AssertionError("nothing was raised")


def at_the_end_of_a_stream() -> object:
    """The client's own code is surprised by its peer."""

    async def read() -> object:
        reader = asyncio.StreamReader()
        reader.feed_eof()
        return await FrameReceiver(reader).get_frame()

    return asyncio.run(read())


def in_a_callback_of_ours() -> object:
    """The client calls us, and the bug is in our code."""

    class Bytes:
        def at_eof(self) -> bool:
            raise AssertionError("ours")

    return asyncio.run(FrameReceiver(Bytes()).get_frame())  # type: ignore[arg-type]


def with_a_wrong_argument() -> object:
    """The function that we call refuses what we gave it."""
    return asyncio.run(FrameReceiver(None).get_frame(1))  # type: ignore[arg-type, call-arg]


def with_an_argument_that_it_refuses() -> object:
    """The same, by a check of the client's own."""
    from aiokafka.producer.message_accumulator import BatchBuilder

    return BatchBuilder(2, 1, "no such codec", is_transactional=False)  # type: ignore[call-arg]


def cancelled() -> object:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (at_the_end_of_a_stream, "aiormq.connection, line"),
        (in_a_callback_of_ours, ""),
        (with_a_wrong_argument, ""),
        (with_an_argument_that_it_refuses, ""),
        (cancelled, ""),
    ],
)
def test_an_error_is_the_clients_where_its_own_code_has_raised_it(run: Callable[[], object], expected: str) -> None:
    """FC-03, FC-04, FC-05."""
    place = origin(error_of(run), "aiormq", "aiokafka")
    assert (place.startswith(expected), bool(place)) == (True, bool(expected))
