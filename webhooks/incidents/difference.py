"""Difference: in which places an edited message differs from its event. It has names and sizes, and no values. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from event.event import Event
from webhooks.incidents.fingerprint import reduced
from webhooks.incidents.probe import Edit

__all__ = ["DIFFERENCE_MAX", "difference"]

DIFFERENCE_MAX: Final = 400
_PLACES_MAX: Final = 20
_DEPTH_MAX: Final = 20
_READ_BYTES_MAX: Final = 262_144
_NAME_MAX: Final = 40


def difference(event: Event, edit: Edit, target: str | None) -> str:
    """Return one line of at most 400 characters: the places in the content, the headers, the address.

    A value may be personal data, and the audit outlives an erasure. So only the places are named. The name of a member
    may be one too: addresses, identifiers and numbers in it are replaced as in a fingerprint.
    """
    parts = []
    if edit.payload is not None:
        parts.append(_of_content(event.payload, edit.payload))
    if edit.headers:
        signs = ("~" if name in event.headers else "+" for name in edit.headers)
        named = ", ".join(f"{sign}{name}" for sign, name in zip(signs, edit.headers, strict=True))
        parts.append(f"headers {named}")
    if edit.target is not None:
        parts.append(f"sent to {(target or '').partition('?')[0]}")
    text = "; ".join(parts)
    return text if len(text) <= DIFFERENCE_MAX else f"{text[: DIFFERENCE_MAX - 1]}…"


def _of_content(old: bytes, new: bytes) -> str:
    sizes = f"content of {len(old)} B sent as {len(new)} B"
    if max(len(old), len(new)) > _READ_BYTES_MAX:
        return sizes
    try:
        places = [*islice(_places(json.loads(old), json.loads(new), "$", 0), _PLACES_MAX + 1)]
    except (ValueError, RecursionError):
        first = next((n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
        return f"{sizes}, from byte {min(len(old), len(new)) if first is None else first} on"
    more = " …" if len(places) > _PLACES_MAX else ""
    return f"{sizes}: {', '.join(places[:_PLACES_MAX]) or 'the same values'}{more}"


def _places(old: Any, new: Any, where: str, depth: int) -> Iterator[str]:
    """Yield ``~$.a`` for a changed member, ``+$.a`` for a new one and ``-$.a`` for one that is gone."""
    if not (isinstance(old, dict) and isinstance(new, dict)) or depth >= _DEPTH_MAX:
        if old != new:
            yield f"~{where}"
        return
    for name in sorted(old.keys() | new.keys()):
        place = f"{where}.{ascii(reduced(name)[:_NAME_MAX])[1:-1]}"
        if name not in new:
            yield f"-{place}"
        elif name not in old:
            yield f"+{place}"
        else:
            yield from _places(old[name], new[name], place, depth + 1)
