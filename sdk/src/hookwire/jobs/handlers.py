"""Handlers: the function for each kind of job.

::

    handlers = Handlers()

    @handlers.job("invoice.check")                         a coroutine, or a plain function, which runs in a thread
    async def check(job: Job) -> dict: ...

    @handlers.job("invoice.pay", in_transaction=True)      its rows and its result commit together
    async def pay(job: Job, connection) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hookwire.threads import Threads

__all__ = ["Handler", "Handlers"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Handler:
    """The function for a kind. ``in_transaction``: it gets the connection on which its job will be completed."""

    run: Callable[..., Any]
    in_transaction: bool = False
    is_coroutine: bool = True

    def call(self, *arguments: Any, threads: Threads) -> Awaitable[Any]:
        """Call the function: a coroutine on the loop, a plain function in a thread."""
        return self.run(*arguments) if self.is_coroutine else threads.call(self.run, *arguments)


class Handlers:
    """A registry of handlers by kind."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Handler] = {}

    @property
    def kinds(self) -> list[str]:
        """Return the kinds that have a handler."""
        return sorted(self._by_kind)

    @property
    def need_transactions(self) -> bool:
        """Return whether any handler runs in the transaction that completes its job."""
        return any(handler.in_transaction for handler in self._by_kind.values())

    def job(self, kind: str, *, in_transaction: bool = False) -> Callable[[F], F]:
        """Decorate the function for a kind. Raise ValueError if the kind has a handler already."""

        def register(function: F) -> F:
            if kind in self._by_kind:
                raise ValueError(f"the kind {kind} has a handler already")
            self._by_kind[kind] = Handler(function, in_transaction, inspect.iscoroutinefunction(function))
            return function

        return register

    def of(self, kind: str) -> Handler:
        """Return the handler of a kind. Raise KeyError for a kind without a handler."""
        return self._by_kind[kind]
