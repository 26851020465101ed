"""Mark: names one event of one burst, in a way that a product may put into any envelope."""

from __future__ import annotations

import re

__all__ = ["MARK", "body"]

MARK = re.compile(rb"mark-([0-9a-f]{8})-(\d+)-")
"""The burst and the number of the event."""


def body(burst: str, number: int, size: int) -> bytes:
    """Return the JSON object of an event, of ``size`` bytes or a few more."""
    text = f'{{"mark": "mark-{burst}-{number}-", "fill": "'
    return (text + "x" * max(size - len(text) - 2, 0) + '"}').encode()
