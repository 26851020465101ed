"""The ways in which a user's handler can end, and what a worker makes of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from hookwire.jobs import Failed
from tests.waiting import block_for

__all__ = ["ENDINGS", "Act", "Ending"]

Act = Callable[[], Any]
HUGE_CHARACTERS = 2_000_000
"""More than the 1 MiB that a result may have."""


class Ending(NamedTuple):
    """What a handler does. ``fails_for``: what workers make of results, where this ending is a failed attempt.

    ``reason`` is part of the reason of a failed attempt. A coroutine handler awaits what ``act`` returns if that is a
    coroutine. ``stops``: the worker may stop afterwards.
    """

    name: str
    act: Act
    reason: str | None = None
    fails_for: tuple[str, ...] = ("kept", "bytes", "nothing")
    on_loop_only: bool = False
    stops: bool = False


class LoudText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class ExitingText(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)


class LoudRepr(Exception):
    def __repr__(self) -> str:
        raise ValueError("no repr")


class OfALibrary(BaseException):
    """As gevent's Timeout and pytest's outcomes are."""


class Unfinished(Failed):
    def __init__(self) -> None:
        """Leave out the base class's own initialization."""


class LoudResult(dict[str, int]):
    def items(self) -> Any:
        raise OfALibrary("it is read")


def raising(error: BaseException | type[BaseException]) -> Act:
    def act() -> Any:
        raise error

    return act


def deep() -> Any:
    return deep()


def generator() -> Any:
    yield b"part"
    raise OfALibrary("between two parts")


async def coroutine() -> None:
    """Return nothing."""


def unawaited() -> Any:
    never = coroutine()
    never.close()  # so that this test prints no warning
    return never


async def inner_task() -> None:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    inner.cancel()
    await inner


async def closed_client() -> None:
    answer = asyncio.get_running_loop().create_future()
    answer.cancel()
    await answer


async def own_scope() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def timeout() -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


async def task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(inner_task())
        group.create_task(coroutine_of(raising(ZeroDivisionError)))


async def coroutine_of(act: Act) -> None:
    act()


def closed_loop() -> None:
    asyncio.get_running_loop().close()


def nested_loop() -> None:
    asyncio.run(inner_task())


RESULTS = ("bytes",)
NEVER_RUN = ("kept", "bytes")  # "kept": what cannot be stored is kept as text, because the work is done
ENDINGS = [
    Ending("returns_bytes", lambda: b"done", None, ()),
    Ending("returns_an_object", object, "object", RESULTS),
    Ending("returns_a_set", lambda: {1, 2}, "set", RESULTS),
    Ending("returns_nan", lambda: float("nan"), "invalid input syntax", RESULTS),
    Ending("returns_a_huge_text", lambda: "x" * HUGE_CHARACTERS, "result", ("bytes",)),
    Ending("returns_a_huge_number", lambda: 10**6_000, "digits", RESULTS),
    Ending("returns_a_surrogate", lambda: "\ud800", "nicode", RESULTS),
    Ending("returns_a_generator", generator, "generator", NEVER_RUN),
    Ending("returns_a_coroutine", unawaited, "coroutine", NEVER_RUN),
    Ending("returns_what_cannot_be_read", lambda: LoudResult(a=1), "OfALibrary: it is read", RESULTS),
    Ending("raises", raising(ZeroDivisionError("no")), "no"),
    Ending("raises_without_a_text", raising(ZeroDivisionError), "ZeroDivisionError"),
    Ending("raises_with_a_text_that_raises", raising(LoudText), "LoudText"),
    Ending("raises_with_a_text_that_exits", raising(ExitingText), "ExitingText"),
    Ending("raises_with_a_repr_that_raises", raising(LoudRepr("no")), "no"),
    Ending("raises_with_a_text_that_cannot_be_stored", raising(ZeroDivisionError("a\0b\ud800")), "a?b?"),
    Ending("raises_a_failure_of_a_careless_class", raising(Unfinished), "Unfinished"),
    Ending("raises_a_group", raising(ExceptionGroup("two", [KeyError(1), KeyError(2)])), "two"),
    Ending("raises_a_base_group", raising(BaseExceptionGroup("one", [SystemExit(1)])), "one"),
    Ending("raises_a_base_exception", raising(OfALibrary("5 s")), "OfALibrary: 5 s"),
    Ending("exits", raising(SystemExit(3)), "SystemExit: 3"),
    Ending("is_interrupted", raising(KeyboardInterrupt), "KeyboardInterrupt", stops=True),
    Ending("raises_generator_exit", raising(GeneratorExit), "GeneratorExit"),
    Ending("raises_stop_iteration", raising(StopIteration), "StopIteration"),
    Ending("raises_stop_async_iteration", raising(StopAsyncIteration), "StopAsyncIteration"),
    Ending("raises_cancelled", raising(asyncio.CancelledError), "CancelledError"),
    Ending("recurses", deep, "recursion"),
    Ending("has_no_memory", raising(MemoryError), "MemoryError"),
    Ending("times_out", raising(TimeoutError), "TimeoutError"),
    Ending("runs_a_loop_that_is_cancelled", nested_loop, ""),
    Ending("cancels_an_inner_task", inner_task, "CancelledError", on_loop_only=True),
    Ending("awaits_a_closed_client", closed_client, "CancelledError", on_loop_only=True),
    Ending("cancels_itself", own_scope, "CancelledError", on_loop_only=True),
    Ending("outlives_its_timeout", timeout, "TimeoutError", on_loop_only=True),
    Ending("loses_a_task_group", task_group, "unhandled errors", on_loop_only=True),
    Ending("closes_its_loop", closed_loop, "running event loop", on_loop_only=True),
    Ending("blocks", lambda: block_for(0.3), None, ("bytes",)),
]
