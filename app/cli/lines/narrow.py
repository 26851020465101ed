"""Items on a terminal that is too narrow for a table: two lines each, or texts that are wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Narrow", "wrapped"]

_CUT: Final = "…"
_GAP: Final = "  "
_INDENT: Final = "  "
_CELL_MIN: Final = 6


@dataclass(frozen=True, slots=True)
class Narrow:
    """Two lines an item: the heads of the cells on the ``first`` and on the ``second`` line.

    A head that ends with a colon is printed before its cell. Cells in ``cuts`` lose their middle where the line would
    be too long, and those in ``ends`` their end. The others, such as ids, are whole.
    """

    first: Sequence[str]
    second: Sequence[str]
    cuts: Sequence[str] = ()
    ends: Sequence[str] = ()

    def lines(self, heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
        """Yield two lines for each row, and a sentence if one of them lost something."""
        is_cut = False
        for row in rows:
            cells = dict(zip(heads, row, strict=True))
            for indent, names in (("", self.first), (_INDENT, self.second)):
                line = indent + _GAP.join(self._fitting(cells, names, width - len(indent)))
                is_cut = is_cut or line.count(_CUT) > "".join(row).count(_CUT)
                yield line
        if is_cut:
            yield f"{_CUT}: left out here; --json has the whole texts"

    def _fitting(self, cells: dict[str, str], names: Sequence[str], width: int) -> list[str]:
        """Return the cells of a line that are not empty, so short that they fit."""
        from rich.cells import cell_len

        shown = [
            (f"{name} {cell}" if name.endswith(":") else cell, self._cut_of(name.rstrip(":")))
            for name in names
            if (cell := cells[name.rstrip(":")])
        ]
        room = width - len(_GAP) * (len(shown) - 1) - sum(cell_len(text) for text, cut in shown if cut is None)
        fitting = []
        left = sorted(cell_len(text) for text, cut in shown if cut is not None)
        # Short texts stay whole, and the long ones share what is left.
        share = room
        for count, length in zip(range(len(left), 0, -1), left, strict=True):
            share = room // count
            if length > share:
                break
            room -= length
        for text, cut in shown:
            fitting.append(text if cut is None else cut(text, max(share, _CELL_MIN)))
        return fitting

    def _cut_of(self, name: str) -> Callable[[str, int], str] | None:
        return _without_middle if name in self.cuts else _without_end if name in self.ends else None


def _without_middle(text: str, width: int) -> str:
    """Return the beginning and the end of a text that is wider than ``width``."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    begin, _ = _split(text, (width - 1) // 2)
    end, _ = _split(text[::-1], width - 1 - cell_len(begin))
    return f"{begin}{_CUT}{end[::-1]}"


def _without_end(text: str, width: int) -> str:
    """Return the beginning of a text that is wider than ``width``."""
    from rich.cells import cell_len

    return text if cell_len(text) <= width else f"{_split(text, width - 1)[0]}{_CUT}"


def _split(text: str, width: int) -> tuple[str, str]:
    """Return the characters that fit into ``width``, and the rest."""
    from rich.cells import cell_len

    taken = 0
    for place, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:place], text[place:]
    return text, ""


def wrapped(pieces: Sequence[str], width: int, first: str, rest: str, gap: str = " ") -> Iterator[str]:
    """Yield lines that begin with ``first``, then with ``rest``. Words are broken only if no line is wide enough."""
    from rich.cells import cell_len

    line, is_begun = first, False
    for piece in pieces:
        words = [piece] if cell_len(rest + piece) <= width else piece.split()
        for place, word in enumerate(words):
            joined = f"{line}{(gap if place == 0 else ' ') if is_begun else ''}{word}"
            if cell_len(joined) > width and is_begun:
                yield line
                joined = f"{rest}{word}"
            while cell_len(joined) > width:
                begin, joined = _split(joined, width)
                yield begin
                joined = rest + joined
            line, is_begun = joined, True
    if is_begun:
        yield line
