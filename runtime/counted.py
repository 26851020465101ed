"""Numbers with their nouns."""

from __future__ import annotations

__all__ = ["counted", "were"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one.

    >>> [counted(number, noun) for number, noun in ((1, "event"), (1200, "delivery"), (2, "key"), (0, "batch"))]
    ['1 event', '1,200 deliveries', '2 keys', '0 batches']
    """
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith(('s', 'ch', 'x')) else 's'}"


def were(number: int) -> str:
    """Return "was" for one, else "were"."""
    return "was" if number == 1 else "were"
