"""What the database refuses of services, as problems; and names of services (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.web.problem import Problem
from db.errors import Refused
from event.topic import TopicError, validate_topic

__all__ = ["service_name", "service_refusals"]

_NAME_MAX: Final = 200
_RESERVED: Final = ("mmi.", "titanic.", "hub.")
_SLUGS: Final = {
    "22023": "invalid-parameter", "42704": "unknown-service", "HW002": "service-unavailable", "HW003": "body-too-large",
    "23505": "idempotency-key-reused",
}  # fmt: skip


@contextmanager
def service_refusals() -> Iterator[None]:
    """Turn the refusals of the database's functions into problems; every other error passes."""
    try:
        yield
    except Refused as error:
        if (slug := _SLUGS.get(error.sqlstate)) is None:
            raise
        raise Problem(slug, error.message) from error


def service_name(name: str) -> str:
    """Return the name, or raise a problem (ZU-14)."""
    try:
        if len(name) > _NAME_MAX:
            raise TopicError(f"a service has 1 to {_NAME_MAX} characters")
        if name.startswith(_RESERVED):
            raise TopicError(f"{name[:80]} is the broker's own; {', '.join(_RESERVED)} are reserved")
        return validate_topic(name)
    except TopicError as error:
        raise Problem("invalid-parameter", f"service: {error}", parameter="name") from None
