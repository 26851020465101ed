"""ProblemKind: a kind of refusal, with its cause and its cure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ProblemKind"]


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One row of the table: title, cause and cure.

    `retry_after_seconds` is set where repeating the same request later is the cure; it becomes the Retry-After header.
    """

    slug: str
    status: int
    title: str
    cause: str
    cure: str
    retry_after_seconds: int | None = None
