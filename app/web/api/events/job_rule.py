"""The rule of a topic's jobs: the job that each event enqueues, and the kinds of jobs that follow."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["JobCallbacks", "JobRule", "Person", "Seconds"]

Person = Annotated[str, Field(min_length=1, max_length=200)]
Seconds = Annotated[float, Field(ge=0, le=315_360_000)]


class JobCallbacks(BaseModel):
    """Kinds of follow-up jobs. Each job is enqueued in the transaction that changes the state."""

    model_config = ConfigDict(extra="forbid")

    on_status: str | None = Field(None, max_length=200, description="Enqueued with every change of state.")
    on_complete: str | None = Field(None, max_length=200)
    on_retry: str | None = Field(None, max_length=200)
    on_fail: str | None = Field(None, max_length=200, description="Enqueued once, after the last attempt failed.")


class JobRule(BaseModel):
    """The job that each event of a topic enqueues. Its `args` are the event, its `key` is the event's key."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"kind": "invoice.check", "priority": 5}]}
    )

    kind: str = Field(min_length=1, max_length=200)
    queue: str | None = Field(None, min_length=1, max_length=200, description="The queue of the job. None: `default`.")
    priority: int | None = Field(None, ge=-1000, le=1000)
    delay_seconds: Seconds | None = Field(None, description="Counted from the time when the job is enqueued.")
    attempts_max: int | None = Field(None, ge=1, le=1_000_000)
    run_seconds: float | None = Field(None, ge=0.05, le=2_592_000)
    deadline_seconds: float | None = Field(None, ge=0.05, le=315_360_000)
    assignee: Person | None = None
    callbacks: JobCallbacks | None = None
