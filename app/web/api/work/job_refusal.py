"""Checks of an API key's permissions for a job."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from fastapi import Request

from app.web.api.route.actor import named_actor
from app.web.api.route.context import Context
from app.web.api.work.job_contract import JobIn
from app.web.api.work.queue_refusal import queue_name
from app.web.authentication import grant_of, may_reach_kind
from app.web.problem import Problem
from db.pool import Row
from jobs.jobs.job import JobReceipt, parse_job_receipt

__all__ = ["kinds_of", "person_of", "receipt_of", "require_job", "require_kinds", "require_own"]


def person_of(request: Request) -> str:
    """Return the caller's name: that of the API key, else of ``HOOKWIRE_ACTOR_HEADER``, else the address."""
    grant = grant_of(request)
    if grant is not None:
        return grant.name or grant.key_id
    if named := named_actor(request):
        return named
    return request.client.host if request.client is not None else "unknown"


def require_kinds(request: Request, kinds: Sequence[str] | None) -> None:
    """Raise a problem unless the key is for all of these kinds; None stands for every kind."""
    grant = grant_of(request)
    if grant is None:
        return
    if kinds is None and (grant.kinds is not None or not grant.reaches_kind("any")):
        raise Problem("forbidden", f"The key {grant.key_id} is for some kinds only; name kinds in the request.")
    for kind in kinds or ():
        if not grant.reaches_kind(kind):
            raise Problem("forbidden", f"The key {grant.key_id} is not for the kind {kind[:80]}.")


def kinds_of(job: JobIn) -> list[str]:
    """Return the kind of a job and those of the jobs that follow it."""
    callbacks = job.callbacks.model_dump(exclude_none=True) if job.callbacks is not None else {}
    return [queue_name(job.kind, "kind"), *callbacks.values()]


async def require_job(request: Request, job_id: UUID, context: Context) -> Row:
    """Return kind, assignee and state of the job. Raise a problem if it does not exist or the key may not see it."""
    row = await context.database.fetchrow("job.kind_of", job_id)
    if row is None or not may_reach_kind(request, row["kind"]):
        raise _unknown(job_id)
    return row


def _unknown(job_id: UUID) -> Problem:
    return Problem("unknown-job", f"There is no job {job_id}.")


def require_own(request: Request, row: Row, verb: str) -> None:
    """Raise a problem if the job is assigned to another person and the key lacks the scope `operate`."""
    grant = grant_of(request)
    if grant is None or grant.has("operate") or row["assignee"] in (None, person_of(request)):
        return
    raise Problem("forbidden", f"The job is assigned to {row['assignee']}; {verb} needs the scope operate.")


async def receipt_of(request: Request, job_id: UUID, text: str, context: Context) -> JobReceipt:
    """Return the receipt in the text. Raise a problem if it is not a receipt of this job."""
    receipt = parse_job_receipt(text)
    if receipt is None or receipt.job_id != job_id:
        raise Problem("stale-receipt", "The receipt does not belong to this job; send the receipt of its latest claim.")
    if grant_of(request) is None:
        return receipt
    row = await context.database.fetchrow("job.kind_of", job_id)
    if row is None:
        raise Problem("stale-receipt", f"The job {job_id} has ended.")
    if not may_reach_kind(request, row["kind"]):
        raise _unknown(job_id)
    return receipt
