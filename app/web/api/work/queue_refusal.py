"""Refusals of queues and tasks as problems, and names of queues."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from app.web.api.route.database_refusal import checked_name, refused_as

__all__ = ["queue_name", "refused_as_problems"]

_SLUGS: Final = {"22023": "invalid-parameter", "42704": "unknown-queue", "HW003": "body-too-large"}


def refused_as_problems() -> AbstractContextManager[None]:
    """Turn the refusals of the functions of queues and tasks into problems; every other error passes."""
    return refused_as(_SLUGS)


def queue_name(name: str, parameter: str = "queue") -> str:
    """Return the name of a queue, or of the thing that ``parameter`` says; else raise a problem."""
    return checked_name(parameter, name, parameter=parameter)
