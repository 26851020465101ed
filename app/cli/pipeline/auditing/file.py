"""The output of ``hookwire pipeline audit --json`` as a file: what the report needs of it, checked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from pipeline.storage import LakeStorage

__all__ = ["audit_of"]


class _Finding(BaseModel):
    fault: str
    topic: str
    hour: datetime
    count: int
    examples: list[str]
    subscription: str | None


class _Days(BaseModel):
    topic: str
    before: str
    cells: int
    events: int
    verdict: str


class _AuditFile(BaseModel):
    lake_uri: str
    ended_at: datetime
    exit_code: int
    found: int
    count: int
    since: datetime
    until: datetime
    records: int
    cells: int
    unequal: int
    remembered: int
    outside: int
    unarchived: int
    unproved: int
    unsealed: int
    erased: int
    findings: list[_Finding]
    unjudged: list[dict[str, Any]]
    lake: list[str]
    unconfirmed: list[str]
    deleted: list[_Days]
    aged: int = 0
    confirmed: list[str] = []


def audit_of(file: Path, lake: LakeStorage) -> dict[str, Any]:
    """Return the audit of this lake with its times as such. Raises ``CommandFailed`` for any other file."""
    try:
        audit = _AuditFile.model_validate_json(file.read_bytes())
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}", 2) from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"])) or "the file"
        why = f"{place}: {error.errors()[0]['msg']}"
        raise CommandFailed(f"{file} is not the output of `hookwire pipeline audit --json`: {why}", 2) from None
    if audit.lake_uri != lake.uri:
        raise CommandFailed(f"{file} is an audit of another lake, {audit.lake_uri}; this is {lake.uri}", 2)
    return audit.model_dump()
