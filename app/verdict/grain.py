"""Grains: the spans by which attempts are counted, and for how long the rows of each are kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal

__all__ = ["KEPT", "LENGTHS", "Grain"]

Grain = Literal["minute", "hour", "day"]
LENGTHS: Final[Mapping[Grain, timedelta]] = {
    "minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1),
}  # fmt: skip
KEPT: Final[Mapping[Grain, timedelta]] = {
    "minute": timedelta(days=2), "hour": timedelta(days=60), "day": timedelta(days=400),
}  # fmt: skip
