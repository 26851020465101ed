"""Problem kinds of queues, jobs, services and their requests."""

from __future__ import annotations

from typing import Final

from app.web.problem_kind import ProblemKind

ROWS: Final = (
    ProblemKind(
        "unknown-queue",
        404,
        "There is no such queue",
        "Nothing was submitted to this queue yet and it was not created, or it was a temporary queue that has ended. "
        "With automatic creation off, submitting to a new queue ends here too. A consumer of copies that was not "
        "registered ends here as well.",
        "Check the spelling (names are case-sensitive), submit once, or create it with PUT /queues/{queue}.",
    ),
    ProblemKind(
        "unknown-job",
        404,
        "There is no such job",
        "No live job has this id or token, and no recently ended job. With automatic creation of kinds switched off, "
        "enqueueing a job of a new kind ends here too.",
        "Check the id. Ended jobs are kept for the kind's retention_days. Create a kind with PUT /job-kinds/{kind}.",
    ),
    ProblemKind(
        "wrong-state",
        409,
        "The job is in another state",
        "Another caller was faster, or the job has changed meanwhile. Nothing was changed.",
        "Read the job with GET /jobs/{id}: its state, its assignee and its trail show the reason.",
    ),
    ProblemKind(
        "stale-receipt",
        409,
        "The claim is over",
        "The lease or the run limit has ended, or the work was settled, cancelled or closed. Nothing was changed.",
        "Drop the work and claim again. Extend the lease in time, or choose a longer one.",
    ),
    ProblemKind(
        "too-many-queues",
        409,
        "There are too many temporary queues",
        "Each temporary queue costs the database, so their number is limited. Unused ones end by themselves.",
        "Remove those that are not needed with DELETE /queues/{queue}, or raise HOOKWIRE_TEMPORARY_QUEUES_MAX.",
    ),
    ProblemKind(
        "unknown-service",
        404,
        "There is no such service",
        "This service has had no request and no worker yet, and was not created. With automatic creation switched "
        "off, a request to a new service ends here too.",
        "Check the spelling (names are case-sensitive), or create it with PUT /services/{name}.",
    ),
    ProblemKind(
        "service-unavailable",
        503,
        "The service takes no requests now",
        "An operator has disabled the service, or it refuses requests while it has no worker. Nothing was stored.",
        "Repeat the request later. Operators: `hookwire services show NAME` shows which; start a worker, enable the "
        "service, or set `without_workers` to `queue`.",
        retry_after_seconds=5,
    ),
    ProblemKind(
        "request-failed",
        502,
        "The request was given up",
        "Workers took the request as often as its service allows, and were lost or failed each time.",
        "Look at the detail, repair the worker, and make a new request.",
    ),
    ProblemKind(
        "request-expired",
        504,
        "No worker has answered in time",
        "The request waited for a worker until its expiry. It is not executed any more.",
        "Start a worker and make a new request; give it more time with Hookwire-Expiry-Seconds, or `expiry_seconds`.",
    ),
    ProblemKind(
        "request-closed",
        410,
        "The request of this Idempotency-Key was closed",
        "The key names a request whose reply was fetched and which was closed, or forgotten. It is not repeated.",
        "Use a new key for a new request.",
    ),
)
