"""The public id of an event: ``evt_<incarnation>_<id>``.

``incarnation`` is 8 characters of lower-case base32 (``a-z2-7``, 40 random bits), drawn once per installation. So ids
of two installations, or of a restored and renamed one, never collide. ``id`` is the decimal number of the event's row.
The id never holds a dot.

A restored database may get another name (`hookwire reincarnate`). The events that it has keep the name before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

EVENT_ID_MAX = 2**63 - 1  # a PostgreSQL bigint
_INCARNATION = re.compile(r"[a-z2-7]{8}")
_EVENT_ID = re.compile(r"evt_([a-z2-7]{8})_([1-9][0-9]{0,18})")


class Incarnation(str):
    """The present name of an installation. ``former`` has its names before, each with the last id that bears it."""

    __slots__ = ("former",)
    former: tuple[tuple[int, str], ...]

    def __new__(cls, name: str, former: Iterable[tuple[int, str]] = ()) -> Incarnation:  # noqa: D102 - the class says it
        made = super().__new__(cls, name)
        made.former = tuple(sorted(former))
        return made


def name_of(incarnation: str, number: int) -> str:
    """Return the name that is a part of this event's id: the present one, or one of before."""
    if isinstance(incarnation, Incarnation):
        for through, name in incarnation.former:
            if number <= through:
                return name
    return incarnation


def is_own(incarnation: str, text: str) -> bool:
    """Return whether the text is the id of an event of this installation: its number bears this name here.

    A number above the last one of a name before belongs to the original of a clone, or to an event that a restore
    forgot.
    """
    try:
        name, number = parse_event_id(text)
    except ValueError:
        return False
    return name == name_of(incarnation, number)


def own_prefixes(incarnation: str) -> tuple[str, ...]:
    """Return what the ids of this installation begin with, under each of its names.

    An id that begins so may still be another's: see ``is_own``.
    """
    former = incarnation.former if isinstance(incarnation, Incarnation) else ()
    return tuple(f"evt_{name}_" for name in (incarnation, *(name for _, name in former)))


def format_event_id(incarnation: str, id: int) -> str:  # noqa: A002 - the row's column is called so everywhere
    """Write the public id. Raises ValueError for a malformed incarnation, or an id outside 1..2**63-1."""
    prefix = _prefix(name_of(incarnation, id))
    if not 1 <= id <= EVENT_ID_MAX:
        raise ValueError(f"an event's id lies in 1..{EVENT_ID_MAX}")
    return f"{prefix}{id}"


@lru_cache(maxsize=64)
def _prefix(name: str) -> str:
    if not _INCARNATION.fullmatch(name):
        raise ValueError("an incarnation is 8 characters of a-z2-7")
    return f"evt_{name}_"


def parse_event_id(text: str) -> tuple[str, int]:
    """Read ``(incarnation, id)`` back from the public id. Raises ValueError for a text that ``format_event_id`` cannot
    write.
    """
    match = _EVENT_ID.fullmatch(text)
    if match is None:
        raise ValueError("an event id looks like evt_abcd2345_1")
    incarnation, id_text = match.groups()
    if int(id_text) > EVENT_ID_MAX:
        raise ValueError(f"an event's id lies in 1..{EVENT_ID_MAX}")
    return incarnation, int(id_text)
