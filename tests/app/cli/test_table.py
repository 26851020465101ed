"""Tables of commands on a terminal: whole ids and words, or a few lines an item (GU-04)."""

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typing_extensions import override

from app.cli import table

HEADS = ("Event", "For", "State", "Next", "Reason")
FOLDS = ("For", "Reason")
LONG = (
    "evt_k3v7q2ha_42", "https://example.com/hooks/production/orders?tenant=4711", "retrying", "2026-01-15T09:31:07Z",
    "attempt 7 failed with HTTP 500: [the database] of the receiver is away",
)  # fmt: skip
SHORT = ("evt_k3v7q2ha_43", "(fan-out)", "pending", "", "in turn")


class Terminal(io.StringIO):
    """Standard output."""

    @override
    def isatty(self) -> bool:
        return True


def shown(width: int, *arguments: Any) -> list[str]:
    """What a terminal of some width shows."""
    out = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        for name, value in {"COLUMNS": str(width), "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}.items():
            patch.setenv(name, value)
        table.show(*arguments)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_what_fits_is_a_table() -> None:
    lines = shown(200, HEADS, [LONG, SHORT], FOLDS)
    assert [re.split(r" {2,}", line)[0] for line in lines] == ["Event", LONG[0], SHORT[0]]


def test_where_a_table_does_not_fit_an_item_has_its_texts_below_it() -> None:
    """GU-04: at 80 columns the reason was lost, and ids and words were cut."""
    assert shown(80, HEADS, [LONG, SHORT], FOLDS, "Events") == [
        "Events",
        "evt_k3v7q2ha_42  State: retrying  Next: 2026-01-15T09:31:07Z",
        "    For: https://example.com/hooks/production/orders?tenant=4711",
        "    Reason: attempt 7 failed with HTTP 500: [the database] of the receiver is",
        "      away",
        "evt_k3v7q2ha_43  State: pending",
        "    For: (fan-out)",
        "    Reason: in turn",
    ]


def test_each_number_of_an_item_has_its_heading() -> None:
    """GU-04: `3  0  0  0` said nothing once the headings were gone. The name of an item comes first."""
    heads, queue = ("Queue", "Waiting", "Claimed", "Paused"), "mail.outgoing.of.the.marketing.department"
    assert shown(60, heads, [(queue, "3", "0", "")], ("Queue",)) == [queue, "    Waiting: 3  Claimed: 0"]


WORDS = st.text("abcxyz[]/_-.:ä中", min_size=1, max_size=70)


@given(
    st.lists(st.tuples(*[st.lists(WORDS, max_size=6).map(" ".join)] * 5), min_size=1, max_size=4),
    st.integers(20, 200),
)
def test_no_word_is_broken_that_fits_and_no_line_is_too_long(rows: list[tuple[str, ...]], width: int) -> None:
    """GU-04: every word of every cell stands whole on a line, and none becomes a picture. Wider ones are broken."""
    lines = shown(width, HEADS, rows, FOLDS)
    told = " ".join(lines).split()
    lost = [
        word
        for row in rows
        for cell in row
        for word in cell.split()
        if word not in told and cell_len(word) <= width - 6
    ]
    assert (lost, [line for line in lines if cell_len(line) > width]) == ([], [])


MARKED = st.lists(WORDS | st.sampled_from(["[dim]", "\\\\", ":x:", "1.5"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(*[MARKED] * 5), min_size=1, max_size=4))
def test_a_table_in_a_pipe_is_the_one_that_rich_prints(rows: list[tuple[str, ...]]) -> None:
    made = []
    for plain in (table._plain_lines, lambda *_: []):
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", out)
            patch.setattr(table, "_plain_lines", plain)
            table.show(HEADS, rows, FOLDS)
        made.append(out.getvalue())
    assert made[0] == made[1]
