"""Callback: the URL of a subscription that gets work by POST, and the keys that sign it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from egress.url import Target

__all__ = ["Callback", "CallbackBook", "CallbackMessage", "CallbackOptions"]


@dataclass(frozen=True, slots=True)
class Callback:
    """Where a subscription's work is POSTed. ``target`` None: it may not be called, as ``refusal`` says.

    ``sign``: headers for a message id, a time and a body.
    """

    target: Target | None
    refusal: str
    timeout_seconds: float | None
    sign: Callable[[str, int, bytes], list[tuple[str, str]]]


class CallbackBook(Protocol):
    """Looks up callbacks of subscriptions. The room that stores subscriptions implements it."""

    async def open(self, wanted: Iterable[tuple[int, int]]) -> Mapping[int, Callback]:
        """Return callbacks by id for pairs of a subscription's id and version."""
        ...


@dataclass(frozen=True, slots=True)
class CallbackOptions:
    """Options of POSTs. ``timeout_seconds``: of one POST, where the subscription has none. ``answer_bytes_max``: of an
    answer's body.

    ``retry_after_seconds_max``: the longest wait that an answer may ask for.
    """

    timeout_seconds: float
    answer_bytes_max: int
    retry_after_seconds_max: float = 3600.0


@dataclass(frozen=True, slots=True)
class CallbackMessage:
    """One POST: its id, its own headers and its body. ``seconds_max``: a deadline earlier than the callback's."""

    id: str
    headers: list[tuple[str, str]]
    body: bytes
    seconds_max: float | None = None
