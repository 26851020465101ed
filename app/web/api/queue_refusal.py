"""What the database refuses of queues and tasks, as problems; and names of queues (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.web.problem import Problem
from db.errors import Refused
from event.topic import TopicError, validate_topic

__all__ = ["queue_name", "refused_as_problems"]

_NAME_MAX = 200
_SLUGS = {"22023": "invalid-parameter", "42704": "unknown-queue", "HW003": "body-too-large"}


@contextmanager
def refused_as_problems() -> Iterator[None]:
    """Turn the refusals of the functions of 0041_queues.sql into problems; every other error passes."""
    try:
        yield
    except Refused as error:
        if (slug := _SLUGS.get(error.sqlstate)) is None:
            raise
        raise Problem(slug, error.message) from error


def queue_name(name: str, parameter: str = "queue") -> str:
    """Return the name of a queue, or of the thing that ``parameter`` says; else raise a problem."""
    try:
        if len(name) > _NAME_MAX:
            raise TopicError(f"a {parameter} has 1 to {_NAME_MAX} characters")
        return validate_topic(name)
    except TopicError as error:
        raise Problem("invalid-parameter", f"{parameter}: {error}", parameter=parameter) from None
