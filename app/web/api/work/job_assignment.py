"""/jobs/{id}/assign and other routes for the acts of people and operators on jobs.

An act on the caller's own job, or on a job of the pool or in review, needs the scope `work`. Any other act needs
`operate`. Each act is stored in the audit trail. If the job is in another state by now, the answer is 409 and nothing
is changed.
"""

from __future__ import annotations

import json
from typing import Annotated
from uuid import UUID

from fastapi import Body, Request

from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.api.route.database_refusal import job_refusals
from app.web.api.route.refusals import BODY
from app.web.api.route.strict_route import strict_router
from app.web.api.work.job_contract import ActIn, AssignIn, DelayIn, FinishIn, StateOut
from app.web.api.work.job_refusal import person_of, require_job, require_own
from app.web.authentication import grant_of
from app.web.problem import Problem
from app.web.scopes import needs

__all__ = ["router"]

router = strict_router("/jobs", "jobs", *BODY, "unknown-job", "wrong-state")
_ENDS = {
    "job.finish": "completed", "job.approve": "completed", "job.decline": "discarded", "job.cancel": "cancelled",
}  # fmt: skip
Act = Annotated[ActIn, Body(default_factory=ActIn)]


@router.post("/{job_id}/assign", summary="Take a job of the pool, or assign it")
@needs("work", reach="route")
async def assign(
    request: Request, job_id: UUID, body: Annotated[AssignIn, Body(default_factory=AssignIn)], context: In
) -> StateOut:
    """If two people take the same job at the same time, the second gets 409 with the name of the first."""
    await require_job(request, job_id, context)
    actor = person_of(request)
    assignee, grant = body.assignee or actor, grant_of(request)
    if grant is not None and assignee != actor and not grant.has("operate"):
        raise Problem("forbidden", "Assigning a job to another person needs the scope operate.")
    return await _done(job_id, context, "job.assign", assignee, actor, body.due_at, body.on_due, body.reason)


@router.post("/{job_id}/unassign", summary="Return a job to the pool")
@needs("work", reach="route")
async def unassign(request: Request, job_id: UUID, body: Act, context: In) -> StateOut:
    """Then every person may take it."""
    return await _own(request, job_id, context, "job.unassign", body.reason)


@router.post("/{job_id}/delay", summary="Delay a job to a date")
@needs("work", reach="route")
async def delay(request: Request, job_id: UUID, body: DelayIn, context: In) -> StateOut:
    """At the end of the delay it returns to its assignee or to the pool. For a far date, send local time and zone."""
    require_own(request, await require_job(request, job_id, context), "delay")
    return await _done(
        job_id, context, "job.delay", person_of(request), body.due_at,
        body.due_local.replace(tzinfo=None) if body.due_local is not None else None, body.due_zone, body.to_pool,
        body.reason,
    )  # fmt: skip


@router.post("/{job_id}/finish", summary="Finish an assigned job")
@needs("work", reach="route")
async def finish(
    request: Request, job_id: UUID, body: Annotated[FinishIn, Body(default_factory=FinishIn)], context: In
) -> StateOut:
    """It is completed, or waits for a review if its kind has `needs_review`."""
    require_own(request, await require_job(request, job_id, context), "finish")
    return await _done(job_id, context, "job.finish", person_of(request), json.dumps(body.result), body.reason)


@router.post("/{job_id}/approve", summary="Approve a job in review")
@needs("work", reach="route")
async def approve(request: Request, job_id: UUID, body: Act, context: In) -> StateOut:
    """It is completed. If its kind has `reviewer_differs`, the performer may not approve it."""
    return await _any(request, job_id, context, "job.approve", body.reason)


@router.post("/{job_id}/send-back", summary="Send back a job in review")
@needs("work", reach="route")
async def send_back(request: Request, job_id: UUID, body: Act, context: In) -> StateOut:
    """It returns to its assignee, or to the pool of people if a machine did it."""
    return await _any(request, job_id, context, "job.send_back", body.reason)


@router.post("/{job_id}/decline", summary="Give up a job in review, or the caller's own job")
@needs("work", reach="route")
async def decline(request: Request, job_id: UUID, body: Act, context: In) -> StateOut:
    """It is discarded."""
    row = await require_job(request, job_id, context)
    if row["state"] == "assigned":
        require_own(request, row, "decline")
    return await _done(job_id, context, "job.decline", person_of(request), body.reason)


@router.post("/{job_id}/cancel", summary="Cancel a job")
@needs("operate", reach="route")
async def cancel(request: Request, job_id: UUID, body: Act, context: In) -> StateOut:
    """It ends at once. A running job is asked to stop, and loses its claim after 30 s."""
    return await _any(request, job_id, context, "job.cancel", body.reason)


@router.post("/{job_id}/retry", summary="Run a job now, or again")
@needs("operate", reach="route")
async def retry(request: Request, job_id: UUID, body: Act, context: In) -> StateOut:
    """A waiting job runs now. A discarded or cancelled job runs again under its old id."""
    return await _any(request, job_id, context, "job.retry", body.reason)


async def _own(request: Request, job_id: UUID, context: Context, statement: str, reason: str | None) -> StateOut:
    require_own(request, await require_job(request, job_id, context), statement.removeprefix("job."))
    return await _done(job_id, context, statement, person_of(request), reason)


async def _any(request: Request, job_id: UUID, context: Context, statement: str, reason: str | None) -> StateOut:
    await require_job(request, job_id, context)
    return await _done(job_id, context, statement, person_of(request), reason)


async def _done(job_id: UUID, context: Context, statement: str, *arguments: object) -> StateOut:
    with job_refusals():
        await context.database.fetchval(statement, job_id, *arguments)
    context.jobs.job_waiting.notify()
    row = await context.database.fetchrow("job.kind_of", job_id)
    return StateOut.model_validate({"id": str(job_id), "state": row["state"] if row is not None else _ENDS[statement]})
