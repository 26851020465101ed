"""Job: work for a person or a worker; its receipt, and the job as its worker gets it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from db.pool import Row

__all__ = ["ClaimedJob", "JobReceipt", "parse_job_receipt"]

_TEXT = re.compile(r"job_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})_([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class JobReceipt:
    """A job and the claim that holds it; a worker settles the job by it (JB-60)."""

    job_id: UUID
    claim: int

    def __str__(self) -> str:
        return f"job_{self.job_id}_{self.claim}"


def parse_job_receipt(text: str) -> JobReceipt | None:
    """Return the receipt in the text, or None if the text is not a receipt."""
    match = _TEXT.fullmatch(text)
    return JobReceipt(UUID(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that a worker has claimed. Its id and ``attempt`` are its idempotency key (JB-39)."""

    receipt: JobReceipt
    kind: str
    args: Any
    key: str | None
    attempt: int
    attempts_max: int
    created_at: datetime
    lease_until: datetime
    run_until: datetime
    resumed: Any

    @classmethod
    def of(cls, row: Row) -> ClaimedJob:
        """Return the job of a row of ``job.claim``."""
        resumed = json.loads(row["resumed"]) if row["resumed"] is not None else None
        return cls(
            JobReceipt(row["id"], row["claim"]), row["kind"], json.loads(row["args"]), row["key"] or None,
            row["attempts"], row["attempts_max"], row["created_at"], row["lease_until"], row["run_until"], resumed,
        )  # fmt: skip

    def as_item(self) -> dict[str, Any]:
        """Return the job as an item of ``POST /jobs/claim``; times stay ``datetime`` values."""
        names = ("kind", "args", "key", "attempts_max", "created_at", "run_until", "resumed")
        return {
            "receipt": str(self.receipt),
            "attempts": self.attempt,
            "leased_until": self.lease_until,
            "job": {"id": str(self.receipt.job_id), **{name: getattr(self, name) for name in names}},
        }
