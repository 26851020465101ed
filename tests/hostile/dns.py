"""A resolver that says what a test tells it to (IT-12, F33), as an implementation of the resolver port."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address

from egress.guard import Address
from egress.resolver import ResolveFailed

Answer = Sequence[str] | None
"""Address texts; an empty one for no such name; None for a server that never answers."""


class ScriptedResolver:
    """Answers by name, each time through a function of its own, and notes every question."""

    def __init__(self, script: Callable[[str], Answer]) -> None:
        self._script = script
        self.asked: list[str] = []

    async def resolve(self, host: str) -> tuple[Address, ...]:
        """Answer as scripted."""
        self.asked.append(host)
        answer = self._script(host)
        if answer is None:
            await asyncio.Event().wait()
        if not answer:
            raise ResolveFailed("the host name could not be resolved")
        return tuple(ip_address(text) for text in answer)


def always(*texts: str) -> ScriptedResolver:
    """Every name has these addresses."""
    return ScriptedResolver(lambda _host: texts)


def flipping(*answers: Sequence[str]) -> ScriptedResolver:
    """Every question gets the next answer, round and round: rebinding with a time to live of zero."""

    def endless() -> Iterator[Sequence[str]]:
        while True:
            yield from answers

    turns = endless()
    return ScriptedResolver(lambda _host: next(turns))


def unknown() -> ScriptedResolver:
    """No name exists."""
    return ScriptedResolver(lambda _host: ())


def stalled() -> ScriptedResolver:
    """No question is ever answered."""
    return ScriptedResolver(lambda _host: None)
