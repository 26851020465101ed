"""A list whose longer versions share its memory: no version ever changes."""

from __future__ import annotations

import pytest

from pipeline.delta.growing import GrowingList


def test_each_version_keeps_its_items() -> None:
    """GP-11: a copy of 100,000 files for each commit was most of its cost."""
    first = GrowingList.of((1, 2))
    second = first.followed_by((3,))
    third, branch = second.followed_by((4, 5)), second.followed_by((6,))
    assert [list(each) for each in (first, second, third, branch)] == [[1, 2], [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 6]]
    assert [len(each) for each in (first, second, third, branch)] == [2, 3, 5, 4]
    assert second._items is third._items
    assert branch._items is not third._items


def test_it_is_read_as_a_tuple_is() -> None:
    short = GrowingList.of((1, 2, 3))
    short.followed_by((4,))
    assert (tuple(short), short == (1, 2, 3), short == (1, 2), short[-1]) == ((1, 2, 3), True, False, 3)
    assert ((1, 2, 3) in (short, ()), list(short[1:]), 4 in short) == (True, [2, 3], False)
    with pytest.raises(IndexError):
        short[3]
