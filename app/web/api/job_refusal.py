"""Refusals of jobs as problems, and what a key may do with a job (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final
from uuid import UUID

from fastapi import Request

from app.web.api.context import Context
from app.web.api.database_refusal import refused_as
from app.web.authentication import grant_of, may_reach_kind
from app.web.problem import Problem
from db.pool import Row
from jobs.job import JobReceipt, parse_job_receipt

__all__ = ["job_refusals", "person_of", "receipt_of", "require_job", "require_kinds", "require_own"]

_SLUGS: Final = {
    "22": "invalid-parameter", "42704": "unknown-job", "HW001": "stale-receipt", "HW002": "wrong-state",
    "HW003": "body-too-large",
}  # fmt: skip
_PERSON_MAX = 100


def job_refusals() -> AbstractContextManager[None]:
    """Turn the refusals of the functions of jobs into problems; every other error passes."""
    return refused_as(_SLUGS)


def person_of(request: Request) -> str:
    """The name of who asks: that of the API key, or of the header ``Hookwire-Actor``, which a proxy sets."""
    grant = grant_of(request)
    if grant is not None:
        return grant.name or grant.key_id
    named = request.headers.get("hookwire-actor", "").strip()[:_PERSON_MAX]
    if named and named.isascii() and named.isprintable():
        return named
    return request.client.host if request.client is not None else "unknown"


def require_kinds(request: Request, kinds: Sequence[str] | None) -> None:
    """The key must be for all of these kinds; None stands for every kind."""
    grant = grant_of(request)
    if grant is None:
        return
    if kinds is None and (grant.kinds is not None or not grant.reaches_kind("any")):
        raise Problem("forbidden", f"The key {grant.key_id} is for some kinds only; name them.")
    for kind in kinds or ():
        if not grant.reaches_kind(kind):
            raise Problem("forbidden", f"The key {grant.key_id} is not for the kind {kind[:80]}.")


async def require_job(request: Request, job_id: UUID, context: Context) -> Row:
    """Return kind, assignee and state of a job that is there and that the key may see."""
    row = await context.database.fetchrow("job.kind_of", job_id)
    if row is None or not may_reach_kind(request, row["kind"]):
        raise Problem("unknown-job", f"There is no job {job_id}.")
    return row


def require_own(request: Request, row: Row, verb: str) -> None:
    """A person's verb on a job of somebody else's needs the scope `operate`."""
    grant = grant_of(request)
    if grant is None or grant.has("operate") or row["assignee"] in (None, person_of(request)):
        return
    raise Problem("forbidden", f"The job is assigned to {row['assignee']}; to {verb} it needs the scope operate.")


async def receipt_of(request: Request, job_id: UUID, text: str, context: Context) -> JobReceipt:
    """Return the receipt, or raise a problem where it is none of this job's."""
    receipt = parse_job_receipt(text)
    if receipt is None or receipt.job_id != job_id:
        raise Problem("stale-receipt", "This is no receipt of this job.")
    if grant_of(request) is not None:
        await require_job(request, job_id, context)
    return receipt
