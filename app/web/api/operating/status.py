"""/status: the verdict on everything that the key of the request may see."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from app.verdict.facts import WORST_MAX
from app.verdict.verdict import Part, PartKind, PartState, Word
from app.web.api.dependency import In
from app.web.api.route.json_route import JsonRoute
from app.web.api.route.refusals import refusals
from app.web.authentication import grant_of
from app.web.problem import Problem
from app.web.scopes import needs
from hub.keys import Grant

__all__ = ["router"]

router = APIRouter(tags=["operations"], route_class=JsonRoute, responses=refusals("database-unavailable", "busy"))
_MOMENT: Final = "2026-01-15T01:33:07.131002Z"
_EXAMPLE: Final[dict[str, Any]] = {
    "kind": "sink",
    "name": "kafka",
    "state": "down",
    "reason": "Kafka does not answer since 2026-01-15T01:33:07Z; 3 events wait; KafkaConnectionError: no answer",
    "since": _MOMENT,
    "waiting": 3,
    "running": 0,
    "dead": 0,
    "oldest_at": _MOMENT,
}


class PartOut(BaseModel):
    """One thing that can wait, fail or stop."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    kind: PartKind = Field(
        description="`deliveries` are all open deliveries together, `dead_letters` those of the last day that were not "
        "given up on purpose, by subscription or by sink and topic. A `lake` is told by its last audit. A `backfill` "
        "is a replay from the lake that nobody carries on. `facts` names what could not be read in time."
    )
    name: str = Field(
        description="Id of the subscription or replay, name of the sink, queue, kind or service, URI of the lake; '' "
        "for all."
    )
    state: PartState = Field(
        description="Trouble: `down`, `held`, `failing`, `slow`, `behind`, `late`, `dead`. Attention: `paused`, "
        "`disabled`, `unfetched`, `unknown`. Neither: `absent`, `ok`."
    )
    reason: str = Field(description="The reason in one sentence.")
    since: datetime | None = Field(description="When the state began, if that is known.")
    waiting: int = Field(description="What waits, counted up to a bound.")
    running: int = Field(description="What is in flight, counted up to a bound.")
    dead: int = Field(description="What was given up, counted up to a bound.")
    oldest_at: datetime | None = Field(description="Since when the oldest of what waits has waited.")


class StatusOut(BaseModel):
    """The verdict and its parts."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"verdict": "trouble", "at": _MOMENT, "parts": [_EXAMPLE]}]}
    )

    verdict: Word = Field(
        description="trouble: something is down, late, held or failing now, or was given up in the last day. "
        "attention: something stands still as intended, or is unknown."
    )
    at: datetime = Field(description="The database's time.")
    parts: list[PartOut] = Field(
        description=f"The most urgent first; at most {WORST_MAX} of each kind, the worst. Subscriptions, holds and "
        "dead letters are told only where something is wrong."
    )


@router.get("/status", summary="Say what is wrong, why and since when", response_model=StatusOut)
@needs("read", reach="route")
async def status(request: Request, context: In) -> dict[str, Any]:
    """The same verdict as on the status page, in `hookwire status` and in the metrics.

    A key for some topics, queues, kinds or services sees only these, among the worst of the installation. Sinks,
    sources and lakes are for keys of all topics. All readers within a second share one answer.
    """
    verdict = await context.verdict.get()
    if verdict is None:
        raise _outage(context.verdict.error)
    if (grant := grant_of(request)) is not None:
        verdict = verdict.only(lambda part: _reaches(grant, part))
    return {"verdict": verdict.word, "at": verdict.facts.at, "parts": [asdict(part) for part in verdict.parts]}


def _outage(error: Exception) -> Exception:
    return Problem("database-unavailable") if isinstance(error, TimeoutError) else error


def _reaches(grant: Grant, part: Part) -> bool:
    """Return whether a key may see a part."""
    named = {
        "queue": grant.reaches_queue, "task": grant.reaches_kind, "job": grant.reaches_kind,
        "service": grant.reaches_service,
    }  # fmt: skip
    if part.kind in named:
        return named[part.kind](part.name)
    return grant.topics is None if part.topic is None else grant.reaches(part.topic)
