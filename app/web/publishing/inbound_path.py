"""The address of a door, ``/in/{source}``."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

__all__ = ["door_name_of", "is_inbound"]

_PREFIX: Final = "/in/"


def is_inbound(scope: Scope) -> bool:
    """Return whether a request is a webhook for a door. Its signature is its credential, so it needs no key."""
    path: str = scope["path"]
    return path.startswith(_PREFIX) and scope["method"] == "POST" and path.count("/") == 2


def door_name_of(scope: Scope) -> str:
    """Return the name of the door that such a request is for; there need not be one."""
    path: str = scope["path"]
    return path[len(_PREFIX) :]
