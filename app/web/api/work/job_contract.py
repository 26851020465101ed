"""Bodies of the requests and answers of the routes of jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from app.web.api.events.job_rule import JobCallbacks, Person, Seconds
from app.web.api.route.answers import json_of
from app.web.api.route.moment import Moment
from app.web.api.route.remark import REMARK_RULE, Remark
from db.pool import Row
from jobs.jobs.job import JobReceipt

__all__ = [
    "ActIn",
    "AssignIn",
    "ClaimIn",
    "ClaimedList",
    "CompleteIn",
    "DelayIn",
    "ExtendedOut",
    "FailIn",
    "FinishIn",
    "JobExtendIn",
    "JobIn",
    "JobOut",
    "JobPage",
    "JobState",
    "ProgressIn",
    "ProgressOut",
    "ReceiptIn",
    "ReleaseIn",
    "ResumeIn",
    "SnoozeIn",
    "StateOut",
    "claimed_out",
    "job_out",
]  # fmt: skip

JobState = Literal[
    "scheduled", "available", "assigned", "running", "review", "retryable", "completed", "cancelled", "discarded"
]
Receipt = Annotated[str, Field(max_length=80, description="The receipt that the claim returned.")]
_ID = "7b0b1f0c-6f0e-4a53-9a0c-6b1f0f2a9d11"
_RECEIPT = f"job_{_ID}_19"


def _example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": list(examples)})


class JobIn(BaseModel):
    """A job to enqueue. The kind's settings supply the values that are left out."""

    model_config = _example({"kind": "invoice.check", "args": {"invoice": 4711}, "uniq": "4711", "priority": 5})

    kind: str = Field(min_length=1, max_length=200)
    args: JsonValue = Field(default_factory=dict)
    uniq: str | None = Field(
        None, min_length=1, max_length=1024, description="Unique among live jobs of a kind; `-` derives it from `args`."
    )
    uniq_seconds: Seconds | None = Field(None, description="Ended jobs keep their `uniq` for this time.")
    on_conflict: Literal["merge", "replace", "skip", "error"] | None = None
    key: str | None = Field(None, max_length=1024, description="The limits per key count jobs with the same key.")
    queue: str | None = Field(None, min_length=1, max_length=200)
    priority: int | None = Field(None, ge=-1000, le=1000)
    due_at: Moment | None = Field(None, description="At most 200 years ahead.")
    delay_seconds: Seconds | None = None
    due_local: datetime | None = Field(None, description="Local time in `due_zone`, for a date far ahead.")
    due_zone: str | None = Field(None, min_length=1, max_length=80)
    attempts_max: int | None = Field(None, ge=1, le=1_000_000)
    run_seconds: float | None = Field(None, ge=0.05, le=2_592_000)
    deadline_seconds: float | None = Field(None, ge=0.05, le=315_360_000)
    assignee: Person | None = None
    callbacks: JobCallbacks | None = None


class StateOut(BaseModel):
    """The current state of the job."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": _ID, "state": "available", "outcome": "made"}]})

    id: str
    state: JobState
    outcome: Literal["made", "merged", "replaced", "skipped"] | None = Field(
        None, description="The result of the request to enqueue the job."
    )


class TrailOut(BaseModel):
    """An act on the job, with its actor."""

    at: datetime
    actor: str
    verb: str
    reason: str | None


_JOB: dict[str, Any] = {
    "id": _ID, "kind": "invoice.check", "queue": "default", "state": "assigned", "for_people": True,
    "args": {"invoice": 4711}, "key": None, "uniq": "4711", "priority": 5, "due_at": None, "due_local": None,
    "due_zone": None, "deadline_at": None, "attempts": 0, "attempts_max": 5, "worker": None, "leased_until": None,
    "assignee": "ada", "performer": None, "number": 2, "progress_done": None, "progress_total": None,
    "progress_note": None, "is_cancelled": False, "result": None, "errors": [], "created_by": "shop",
    "created_at": "2026-01-15T09:31:07Z", "claimed_at": None, "ended_at": None, "ended_by": None, "reason": None,
    "trail": [],
}  # fmt: skip


class JobOut(BaseModel):
    """A live or ended job. `args`, `result` and `errors` are null for an API key without the scope `payloads`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB]})

    id: str
    kind: str
    queue: str
    state: JobState
    for_people: bool
    args: JsonValue
    key: str | None
    uniq: str | None
    priority: int
    due_at: datetime | None
    due_local: datetime | None
    due_zone: str | None
    deadline_at: datetime | None
    attempts: int
    attempts_max: int
    worker: str | None
    leased_until: datetime | None = Field(validation_alias="lease_until")
    assignee: str | None
    performer: str | None = Field(description="The person or worker that did it.")
    number: int = Field(description="The number of the latest change of state; the event of the change has it too.")
    progress_done: int | None
    progress_total: int | None
    progress_note: str | None
    is_cancelled: bool = Field(description="The job runs and was asked to stop.")
    result: JsonValue
    errors: JsonValue = Field(description="The errors of the latest 20 failed attempts.")
    created_by: str | None
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None
    trail: list[TrailOut] = Field(default_factory=list, description="Acts on the job; in `GET /jobs/{id}` only.")


_OF_ROW = tuple(JobOut.model_fields.keys() - {"id", "leased_until", "args", "result", "errors", "trail"})


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_JOB], "next_cursor": None}]})

    items: list[JobOut]
    next_cursor: str | None


class ClaimIn(BaseModel):
    """The jobs that a worker wants to claim."""

    model_config = _example({"kinds": ["invoice.check"], "max": 10, "wait_seconds": 20})

    kinds: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = Field(
        None, min_length=1, max_length=100, description="Null: all kinds."
    )
    queue: str = Field("default", min_length=1, max_length=200)
    max: int = Field(1, ge=1, le=500)
    lease_seconds: float | None = Field(None, ge=1, le=43_200, description="Null: the setting of the kind.")
    wait_seconds: float = Field(0, ge=0, le=60)
    worker: Person | None = Field(None, description="The worker's name for the trail. Null: the caller's name.")


class ClaimedJobOut(BaseModel):
    """The part of a job that a worker needs."""

    id: str
    kind: str
    args: JsonValue
    key: str | None
    attempts_max: int
    created_at: datetime
    run_until: datetime = Field(description="The attempt fails at this time.")
    resumed: JsonValue = Field(description="The answer that came for the job's token, else null.")


class ClaimedOut(BaseModel):
    """A job that a worker has claimed."""

    receipt: str
    attempts: int
    leased_until: datetime
    job: ClaimedJobOut


class ClaimedList(BaseModel):
    """The claimed jobs; the list may be empty."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [{
        "receipt": _RECEIPT, "attempts": 1, "leased_until": "2026-01-15T09:31:37Z",
        "job": {"id": _ID, "kind": "invoice.check", "args": {"invoice": 4711}, "key": None, "attempts_max": 5,
                "created_at": "2026-01-15T09:31:07Z", "run_until": "2026-01-15T09:32:07Z", "resumed": None},
    }]}]})  # fmt: skip

    items: list[ClaimedOut]


class ReceiptIn(BaseModel):
    """The receipt of the claim."""

    model_config = _example({"receipt": _RECEIPT})

    receipt: Receipt


class ReleaseIn(ReceiptIn):
    """The receipt of the claim, and why the job is released."""

    reason: Literal["stop"] | None = Field(
        None, description="`stop`: the worker stops. Such a release is not counted; of others 100 in a row are allowed."
    )


class EventIn(BaseModel):
    """An event that commits with the result."""

    model_config = ConfigDict(extra="forbid")

    topic: str = Field(max_length=249)
    payload: JsonValue = Field(description="A string is published as it is, any other value as JSON.")
    key: str | None = Field(None, max_length=1024)
    content_type: str | None = Field(None, max_length=255)
    headers: dict[str, str] | None = Field(None, max_length=64)


class CompleteIn(ReceiptIn):
    """The result, events and follow-up jobs; they are stored in one commit."""

    model_config = _example(
        {
            "receipt": _RECEIPT,
            "result": {"ok": True},
            "events": [{"topic": "invoices.checked", "key": "4711", "payload": {"invoice": 4711}}],
            "jobs": [{"kind": "mail.send", "args": {"invoice": 4711}}],
        }
    )

    result: JsonValue = None
    events: list[EventIn] = Field(default_factory=list, max_length=100)
    jobs: list[JobIn] = Field(default_factory=list, max_length=100)
    note: Annotated[str | None, Remark(500)] = Field(
        None, description=f"A note on the result for the trail. {REMARK_RULE}"
    )


class FailIn(ReceiptIn):
    """The reason of the failure, and how to continue."""

    model_config = _example({"receipt": _RECEIPT, "error": "the printer is on fire"})

    error: Annotated[str | None, Remark(2000)] = Field(
        "failed", description=f"The text of the error, up to 2,000 characters. {REMARK_RULE}"
    )
    dead: bool = Field(False, description="No further attempt.")
    retry_seconds: Seconds | None = Field(None, description="The next attempt's delay, instead of the backoff.")


class SnoozeIn(ReceiptIn):
    """How long the job is postponed. The attempt does not count."""

    model_config = _example({"receipt": _RECEIPT, "seconds": 600})

    seconds: Seconds
    token: str | None = Field(
        None, min_length=16, max_length=200, description="`POST /jobs/resume` with this token resumes the job earlier."
    )


class ProgressIn(ReceiptIn):
    """The progress of the job."""

    model_config = _example({"receipt": _RECEIPT, "done": 3, "total": 10})

    done: int = Field(ge=0, le=2**53)
    total: int | None = Field(None, ge=0, le=2**53)
    note: Annotated[str | None, Remark(500)] = Field(None, description=REMARK_RULE)


class ProgressOut(BaseModel):
    """Whether the job must stop."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"is_cancelled": False}]})

    is_cancelled: bool = Field(description="The job must stop: fail or release it.")


class JobExtendIn(ReceiptIn):
    """The length of the lease, from now."""

    model_config = _example({"receipt": _RECEIPT, "lease_seconds": 60})

    lease_seconds: float = Field(30, ge=1, le=43_200)


class ExtendedOut(ProgressOut):
    """The new end of the lease; it never exceeds the run limit."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"leased_until": "2026-01-15T09:32:07Z", "is_cancelled": False}]}
    )

    leased_until: datetime


class ResumeIn(BaseModel):
    """The answer that a job waits for."""

    model_config = _example({"token": "2f9c1d0e7ab34c55", "answer": {"paid": True}})

    token: str = Field(min_length=16, max_length=200)
    answer: JsonValue = True


class ActIn(BaseModel):
    """The reason of an act; it is stored in the trail."""

    model_config = _example({"reason": "one page is missing"})

    reason: str | None = Field(None, max_length=500)


class AssignIn(ActIn):
    """The person who gets the job; null: the caller."""

    model_config = _example({"assignee": "ada", "due_at": "2026-02-01T12:00:00Z", "on_due": "remind"})

    assignee: Person | None = None
    due_at: datetime | None = None
    on_due: Literal["remind", "escalate", "unassign"] | None = Field(None, description="The action at `due_at`.")


class DelayIn(ActIn):
    """The end of the delay: an instant, or a local time with its zone."""

    model_config = _example({"due_local": "2026-07-01T09:00:00", "due_zone": "Europe/Berlin", "reason": "on holiday"})

    due_at: datetime | None = None
    due_local: datetime | None = None
    due_zone: str | None = Field(None, min_length=1, max_length=80)
    to_pool: bool = Field(False, description="The job returns to the pool instead of to its assignee.")


class FinishIn(ActIn):
    """The result of the job."""

    model_config = _example({"result": {"pages": 4}})

    result: JsonValue = None


def job_out(row: Row, *, shown: bool) -> dict[str, Any]:
    """Return a row of ``job.list`` as fields of :class:`JobOut`; unless ``shown``, leave the contents null."""
    return {
        **{name: row[name] for name in _OF_ROW},
        "id": str(row["id"]),
        "leased_until": row["lease_until"],
        **{name: json_of(row[name]) if shown else None for name in ("args", "result", "errors")},
        "trail": [],
    }


def claimed_out(row: Row) -> dict[str, Any]:
    """Return a row of ``job.claim`` as fields of :class:`ClaimedOut`."""
    return {
        "receipt": str(JobReceipt(row["id"], row["claim"])),
        "attempts": row["attempts"],
        "leased_until": row["lease_until"],
        "job": {
            "id": str(row["id"]), "kind": row["kind"], "args": json_of(row["args"]), "key": row["key"] or None,
            "attempts_max": row["attempts_max"], "created_at": row["created_at"], "run_until": row["run_until"],
            "resumed": json_of(row["resumed"]),
        },
    }  # fmt: skip
