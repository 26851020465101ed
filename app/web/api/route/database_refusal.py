"""Refusals of the database's functions as problems, and checked names of queues, services and topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from app.web.problem import Problem
from db.errors import Refused
from event.topic import TopicError, validate_topic

__all__ = ["checked_name", "checked_topic", "job_refusals", "refused_as"]

_NAME_MAX: Final = 200
_JOB_SLUGS: Final = {
    "22": "invalid-parameter", "42704": "unknown-job", "HW001": "stale-receipt", "HW002": "wrong-state",
    "HW003": "body-too-large",
}  # fmt: skip


@contextmanager
def refused_as(slugs: Mapping[str, str]) -> Iterator[None]:
    """Turn refusals into the problems of their SQLSTATE, or of its class of two characters; other errors pass."""
    try:
        yield
    except Refused as error:
        slug = slugs.get(error.sqlstate) or slugs.get(error.sqlstate[:2])
        if slug is None:
            raise
        raise Problem(slug, error.message) from error


def job_refusals() -> AbstractContextManager[None]:
    """Return a context that raises a problem for a refusal of a job function. Any other error passes through."""
    return refused_as(_JOB_SLUGS)


def checked_name(what: str, name: str, *, parameter: str, reserved: tuple[str, ...] = ()) -> str:
    """Return the name of a queue or a service, or raise a problem that names the parameter."""
    try:
        if not 1 <= len(name) <= _NAME_MAX:
            raise TopicError(f"a {what} has 1 to {_NAME_MAX} characters")
        if reserved and name.startswith(reserved):
            raise TopicError(f"{name[:80]} is the broker's own; {', '.join(reserved)} are reserved")
        return validate_topic(name)
    except TopicError as error:
        detail = str(error).replace("a topic", f"a {what}", 1)
        raise Problem("invalid-parameter", f"{what}: {detail}", parameter=parameter) from None


def checked_topic(topic: str) -> str:
    """Return the name of a topic, or raise a problem."""
    try:
        return validate_topic(topic)
    except TopicError as error:
        raise Problem("invalid-topic", str(error), parameter="topic") from None
