"""Refusals of services as problems, and names of services."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from app.web.api.route.database_refusal import checked_name, refused_as

__all__ = ["service_name", "service_refusals"]

_RESERVED: Final = ("mmi.", "titanic.", "hub.")
_SLUGS: Final = {
    "22023": "invalid-parameter", "42704": "unknown-service", "HW002": "service-unavailable", "HW003": "body-too-large",
    "23505": "idempotency-key-reused",
}  # fmt: skip


def service_refusals() -> AbstractContextManager[None]:
    """Turn the refusals of the functions of services into problems; every other error passes."""
    return refused_as(_SLUGS)


def service_name(name: str) -> str:
    """Return the name, or raise a problem (ZU-14)."""
    return checked_name("service", name, parameter="name", reserved=_RESERVED)
