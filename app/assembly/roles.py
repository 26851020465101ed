"""The roles of a process."""

from __future__ import annotations

from typing import Final

__all__ = ["ROLES"]

ROLES: Final = ("api", "relay", "deliver", "source")
