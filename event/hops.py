"""Hops: the number of hubs that an event has passed, so that hubs which feed each other do not loop (WS-105)."""

from __future__ import annotations

from typing import Final

__all__ = ["HOPS_HEADER", "HOPS_MAX", "hops_of"]

HOPS_HEADER: Final = "hookwire-hops"
HOPS_MAX: Final = 8


def hops_of(value: str) -> int | None:
    """Return the number of a ``hookwire-hops`` header; None when it is no number or too high."""
    hops = int(value) if value.isascii() and value.isdigit() and len(value) <= 3 else HOPS_MAX
    return hops if hops < HOPS_MAX else None
