"""Preconditions: change only the version that was read (RFC 9110, 13.1.1)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from app.web.problem import Problem

__all__ = ["IfMatch", "etag", "version_meant"]

IfMatch = Annotated[
    str | None,
    Header(max_length=100, description="Change only this version: the `ETag` of a GET. Without it: any version."),
]


def etag(version: int) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def version_meant(if_match: str | None) -> int | None:
    """Return the version in an If-Match; None: any version. Else raise ``Problem``."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Problem("precondition-failed", "If-Match is one ETag that a GET of it has answered with, or *.")
    return int(text)
