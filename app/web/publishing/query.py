"""The query of a request: a parameter that its route does not know is refused (ADR 33)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.settings.file import hint
from app.web.problem import Problem

__all__ = ["refuse_unknown"]

_NAME_CHARACTERS_MAX = 100


def refuse_unknown(names: Iterable[str], known: Sequence[str]) -> None:
    """Raise :class:`Problem` (400) for the first unknown name, with the nearest known one."""
    for name in names:
        if name not in known:
            raise _unknown(name[:_NAME_CHARACTERS_MAX], known)


def _unknown(name: str, known: Sequence[str]) -> Problem:
    there_are = f"; there are {', '.join(known)}" if known else "; this request has none in its query"
    choice = hint(name, known) or there_are
    return Problem("invalid-parameter", f"query {name}: there is no such parameter{choice}", parameter=name)
