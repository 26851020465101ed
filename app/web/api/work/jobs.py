"""/jobs: routes for requesters and workers to enqueue, list, claim and settle jobs."""

from __future__ import annotations

import time
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from app.web.api.dependency import In
from app.web.api.route.answers import row_bytes
from app.web.api.route.database_refusal import job_refusals
from app.web.api.route.effect import tell_without_effect
from app.web.api.route.long_poll import long_poll
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import NO_NUL, strict_router
from app.web.api.work.job_contract import (
    ClaimedList,
    ClaimIn,
    CompleteIn,
    ExtendedOut,
    FailIn,
    JobExtendIn,
    JobIn,
    JobOut,
    JobPage,
    JobState,
    ProgressIn,
    ProgressOut,
    ReleaseIn,
    ResumeIn,
    SnoozeIn,
    StateOut,
    claimed_out,
    job_out,
)
from app.web.api.work.job_refusal import kinds_of, person_of, receipt_of, require_job, require_kinds
from app.web.api.work.queue_refusal import queue_name
from app.web.api.work.report_route import ReportRoute
from app.web.authentication import grant_of, may_reach_kind, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from jobs.jobs.job import JobReceipt
from runtime.pause import pause

__all__ = ["reports", "router"]

_SETTLE = refusals(*BODY, "stale-receipt", "unknown-job")
router = strict_router("/jobs", "jobs", "invalid-parameter")
reports = APIRouter(prefix="/jobs", tags=["jobs"], route_class=ReportRoute, responses=router.responses)
_LARGEST = 2**63 - 1
_BLOCKED_SECONDS = 0.2
_ENDED = ("completed", "cancelled", "discarded")


@router.post("", status_code=201, summary="Enqueue a job", response_model=StateOut,
             responses={200: {"model": StateOut, "description": "A live job has the same `uniq`; see `outcome`."},
                        **refusals(*BODY, "unknown-job", "wrong-state")})  # fmt: skip
@needs("enqueue", reach="route")
async def enqueue(request: Request, response: Response, body: JobIn, context: In) -> StateOut:
    """The job is stored before the answer. By default a job merges with a live one of the same kind and `uniq`."""
    require_kinds(request, kinds_of(body))
    draft = body.model_dump(mode="json", exclude_none=True)
    with job_refusals():
        [added] = await context.jobs.queue.add([draft], person_of(request))
    if added.outcome != "made":
        response.status_code = 200
    return StateOut.model_validate({"id": str(added.id), "state": added.state, "outcome": added.outcome})


@router.get("", summary="List jobs", response_model=JobPage, responses=refusals("invalid-cursor"))
@needs("read", reach="route")
async def list_jobs(
    request: Request,
    context: In,
    paging: Paged,
    state: Annotated[JobState | None, Query()] = None,
    kind: Annotated[str | None, Query(max_length=200, pattern=NO_NUL)] = None,
    assignee: Annotated[str | None, Query(max_length=200, pattern=NO_NUL, description="`me`: the caller.")] = None,
    pool: Annotated[bool | None, Query(description="Only jobs that wait for a person to take them.")] = None,
    uniq: Annotated[str | None, Query(max_length=1024, pattern=NO_NUL)] = None,
) -> Response:
    """Live and ended jobs, newest first. A page ends before its limit if its contents are large."""
    person = person_of(request) if assignee == "me" else assignee
    asked = ("job.list", *paging.after(_LARGEST), state, kind, person, pool or None, None, uniq, paging.limit + 1)
    shown = shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.database.fetch_filtered(*asked, room), lambda row: [row["seq"]],
        lambda row: job_out(row, shown=shown), lambda row: may_reach_kind(request, row["kind"]),
    )  # fmt: skip


@router.post("/claim", summary="Claim jobs", response_model=ClaimedList, responses=refusals(*BODY))
@needs("work", reach="route")
async def claim(request: Request, body: ClaimIn, context: In) -> Response:
    """Jobs are sorted by priority and age. Settle each within its lease, or extend it, but not past `run_until`.

    Large jobs come in several claims, of some 8 MB at most.
    """
    require_kinds(request, body.kinds)
    kinds = [queue_name(kind, "kind") for kind in body.kinds] if body.kinds is not None else None
    until, worker = time.monotonic() + body.wait_seconds, body.worker or person_of(request)
    jobs = context.jobs
    asked = (kinds, body.max, worker, body.lease_seconds, body.queue)
    async with context.answers.share() as share:
        with job_refusals():
            found = await long_poll(
                request,
                context.leaving,
                lambda: share.fetch(lambda room: jobs.queue.claim_rows(*asked, room)),
                lambda: jobs.job_waiting.wait_for(body.queue, kinds, until - time.monotonic()),
            )
        return await share.list_of(found, claimed_out, row_bytes)


@router.post("/resume", summary="Resume a job that waits for a token", responses=refusals(*BODY, "unknown-job"))
@needs("work", reach="route")
async def resume(body: ResumeIn, context: In) -> StateOut:
    """The caller needs no other permission for the job than its token. The next claim returns the answer."""
    with job_refusals():
        job = await context.jobs.queue.resume(body.token, body.answer)
    return StateOut(id=str(job), state="available", outcome=None)


@router.get("/{job_id}", summary="Get a job and its trail of acts", response_model=JobOut,
            responses=refusals("unknown-job"))  # fmt: skip
@needs("read", reach="route")
async def get(
    request: Request,
    job_id: UUID,
    context: In,
    wait_seconds: Annotated[float, Query(ge=0, le=60, description="Wait this long for the job to end.")] = 0,
) -> Response:
    """The job may be live or ended. An ended job is kept for the `retention_days` of its kind."""
    until = time.monotonic() + wait_seconds
    while True:
        row = await require_job(request, job_id, context)
        is_over = time.monotonic() >= until or context.leaving.is_set()
        if row["state"] in _ENDED or is_over or await request.is_disconnected():
            break
        await pause(context.leaving, _BLOCKED_SECONDS)
    asked, shown = ("job.list", _LARGEST, None, None, None, None, job_id, None, 1), shows_payloads(request)
    async with context.answers.share() as share:
        rows = await share.fetch(lambda room: context.database.fetch_filtered(*asked, room))
        if not rows:
            raise Problem("unknown-job", f"There is no job {job_id}.")
        trail = [dict(act) for act in await context.database.fetch("job.trail", str(job_id))]
        return await share.one(lambda: {**job_out(rows[0], shown=shown), "trail": trail}, row_bytes(rows[0]))


@reports.post("/{job_id}/complete", status_code=204, summary="Complete a job with a result", responses=_SETTLE)
@needs("work", reach="route")
async def complete(request: Request, job_id: UUID, body: CompleteIn, context: In) -> None:
    """The result, the state, events and follow-up jobs are stored in one commit.

    A result that cannot be stored does not repeat the work. Its text is cut and kept, with a note in the trail.
    """
    receipt = await receipt_of(request, job_id, body.receipt, context)
    require_kinds(request, [kind for job in body.jobs for kind in kinds_of(job)])
    asked = body.model_dump(mode="json", exclude_none=True)
    extra = {name: asked[name] for name in ("events", "jobs", "note") if asked.get(name)}
    _require_topics(request, [event.topic for event in body.events])
    with job_refusals():
        done = await context.jobs.queue.complete([receipt], [body.result], [extra])
    if not done:
        raise _stale(receipt)


@router.post("/{job_id}/fail", summary="Fail the attempt of a job", responses=_SETTLE)
@needs("work", reach="route")
async def fail(request: Request, job_id: UUID, body: FailIn, context: In) -> StateOut:
    """The kind's settings decide: the job is tried again after its backoff, is discarded, or goes to people."""
    receipt = await receipt_of(request, job_id, body.receipt, context)
    with job_refusals():
        state = await context.jobs.queue.fail(
            receipt, body.error or "failed", dead=body.dead, retry_seconds=body.retry_seconds
        )
    return StateOut.model_validate({"id": str(job_id), "state": state})


@router.post(
    "/{job_id}/snooze", status_code=204, summary="Postpone a job", responses={**_SETTLE, **refusals("wrong-state")}
)
@needs("work", reach="route")
async def snooze(request: Request, job_id: UUID, body: SnoozeIn, context: In) -> None:
    """The attempt does not count. With a token, the job can be resumed earlier."""
    receipt = await receipt_of(request, job_id, body.receipt, context)
    with job_refusals():
        await context.jobs.queue.snooze(receipt, body.seconds, body.token)


@router.post("/{job_id}/release", status_code=204, summary="Release a job", responses=_SETTLE)
@needs("work", reach="route")
async def release(request: Request, response: Response, job_id: UUID, body: ReleaseIn, context: In) -> None:
    """Release a job. The attempt does not count. A stale receipt changes nothing.

    After 100 releases in a row the attempt fails. A worker that stops gives the reason `stop`, which is not counted.
    """
    receipt = await receipt_of(request, job_id, body.receipt, context)
    if not await context.jobs.queue.release([receipt], body.reason):
        tell_without_effect(request, response, "release", f"the claim of {receipt} is over; nothing was changed")


@router.post("/{job_id}/progress", summary="Report the progress of a job", responses=_SETTLE)
@needs("work", reach="route")
async def progress(request: Request, job_id: UUID, body: ProgressIn, context: In) -> ProgressOut:
    """`GET /jobs/{id}` shows the progress. It is published if the kind's `events` contain `progress`."""
    receipt = await receipt_of(request, job_id, body.receipt, context)
    with job_refusals():
        cancelled = await context.jobs.queue.progress(receipt, body.done, body.total, body.note)
    return ProgressOut(is_cancelled=cancelled)


@router.post("/{job_id}/extend", summary="Extend the lease of a job", responses=_SETTLE)
@needs("work", reach="route")
async def extend(request: Request, job_id: UUID, body: JobExtendIn, context: In) -> ExtendedOut:
    """The lease counts from now and never exceeds the run limit."""
    receipt = await receipt_of(request, job_id, body.receipt, context)
    beat = await context.jobs.queue.extend([receipt], body.lease_seconds)
    if not beat.held:
        raise _stale(receipt)
    return ExtendedOut(leased_until=beat.held[receipt], is_cancelled=receipt in beat.cancelled)


def _stale(receipt: JobReceipt) -> Problem:
    return Problem("stale-receipt", f"The claim of {receipt} is over; nothing was changed.")


def _require_topics(request: Request, topics: list[str]) -> None:
    grant = grant_of(request)
    for topic in topics:
        if grant is not None and not (grant.has("publish") and grant.reaches(topic)):
            raise Problem("forbidden", f"Publishing to {topic[:80]} needs the scope publish for that topic.")
