"""Bars: a row of numbers as a small picture, made by the server, with its words for those who do not see it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

__all__ = ["bars"]

_WIDTH: Final = 8
_HEIGHT: Final = 60


def bars(numbers: Sequence[int], title: str) -> str:
    """Return a picture as wide as its place, with a bar for each number on a base line. The highest bar takes all the
    height. ``title`` says what it shows.
    """
    most = max(numbers, default=0) or 1
    drawn = "".join(
        f'<rect x="{place * _WIDTH}" y="{_HEIGHT - height}" width="{_WIDTH - 2}" height="{height}"/>'
        for place, height in enumerate(max(round(number * _HEIGHT / most), int(number > 0)) for number in numbers)
        if height
    )
    width = len(numbers) * _WIDTH
    return (
        f'<svg role="img" width="100%" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" preserveAspectRatio="none" '
        f'fill="currentColor"><title>{escape(title)}</title>{drawn}'
        f'<rect y="{_HEIGHT - 1}" width="{width}" height="1" opacity="0.4"/></svg>'
    )
