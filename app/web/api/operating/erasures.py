"""/erasures: the contents of events go, and their rows stay (docs/how-to/erase-a-customer.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.actor import actor_of
from app.web.api.route.context import Context
from app.web.api.route.event_ids import event_number
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row, Session
from event.identity import format_event_id

__all__ = ["router"]

router = strict_router("/erasures", "erasures")
EventId = Annotated[str, Field(max_length=60)]
_EVENTS_MAX: Final = 500
"""The events of one request: a request is one transaction, and a key may have millions."""
_READ_MAX: Final = 5_000
"""The events that one request reads to find a subject, which has no index. Headers have up to 64 KiB each."""
_KEPT_BYTES: Final = "freed bytes in the files of the database, until `hookwire rewrite`"
_COPIES: Final = "the write-ahead log, standbys and backups of the database; the lake, until `hookwire pipeline erase`"
_DOORS: Final = "bodies that inbound sources refused, until they are seven days old"
_SINKS: Final = {"kafka": "records in Kafka", "amqp": "messages in AMQP queues"}
_JOBS: Final = "what workers of their jobs stored elsewhere, and events and callbacks with their results"
_EXAMPLE: dict[str, Any] = {
    "dry_run": False,
    "examined": 12,
    "unread": None,
    "events": 12,
    "erased_before": 0,
    "unknown": 0,
    "unsent": 0,
    "deliveries": 0,
    "jobs": 0,
    "attempts": 14,
    "archived_jobs": 0,
    "not_reached": [
        "records in Kafka",
        "2 receivers were sent them",
        _KEPT_BYTES,
        _COPIES,
        _DOORS,
    ],
    "next_after": None,
}


class ErasureIn(BaseModel):
    """Chooses events by topic and key, by their CloudEvents subject, or by their ids."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"topic": "orders.created", "key": "customer-17", "dry_run": True}]},
    )

    topic: str | None = Field(
        None, max_length=249, pattern=r"^[A-Za-z0-9._-]+$", description="With `key`, or to narrow `subject`."
    )
    key: str | None = Field(None, min_length=1, max_length=1024, description="Exactly this ordering key.")
    subject: str | None = Field(
        None,
        min_length=1,
        max_length=4096,
        description="Exactly this `subject` of CloudEvents, of one topic or of all.",
    )
    event_ids: Annotated[list[EventId], Field(min_length=1, max_length=_EVENTS_MAX)] | None = None
    after: EventId | None = Field(
        None, description="With a key or a subject: only events after this one, the `next_after` of the answer before."
    )
    replace_key: bool = Field(
        False, description="Replace the key by `sha256:` and its digest. Use it where the key names a person."
    )
    force: bool = Field(False, description="End open deliveries and live jobs of these events, too.")
    reason: str | None = Field(None, max_length=500, description="The reason, for the audit trail.")
    dry_run: bool = Field(False, description="Only count.")


class ErasureOut(BaseModel):
    """The counts of one step. Repeat the request with `after` until `next_after` is null."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dry_run: bool
    examined: int = Field(description="Events that this request read. It reads 5,000 at most to find a subject.")
    unread: int | None = Field(description="With a subject: at most this number of events are still to be read.")
    events: int = Field(description="Events whose contents were erased by this request.")
    erased_before: int = Field(description="Chosen events that were erased already.")
    unknown: int = Field(description="Ids of events that do not exist.")
    unsent: int = Field(description="Events that still wait for a sink, and were left out. Repeat the request later.")
    deliveries: int = Field(description="Open deliveries. They were ended.")
    jobs: int = Field(description="Live jobs that were made from these events. They were cancelled.")
    attempts: int = Field(description="Attempts whose excerpts of answers were erased.")
    archived_jobs: int = Field(description="Ended jobs whose arguments and results were erased.")
    not_reached: list[str] = Field(description="Where copies of the contents may still be.")
    next_after: str | None = Field(description="The last event of this step, if there may be more events; else null.")


@router.post(
    "",
    response_model=ErasureOut,
    summary="Erase the contents of events",
    responses=refusals(*ACT, "erasure-waits"),
)
@needs("admin")
async def erase(body: ErasureIn, request: Request, context: In) -> ErasureOut:
    """Erases content, headers and content type of up to 500 events, with the excerpts of answers to their deliveries.
    Jobs that were made from them lose their arguments and results. Ids, order, times and the ledger stay. The audit
    trail names the topic, and neither key nor subject.

    No index finds a subject: each request reads up to 5,000 events, and says how many are still to be read.

    Without `force`, nothing is erased as long as one of these events is still being delivered.
    """
    _refuse_unclear(body)
    async with context.database.transaction() as session:
        step = await _chosen(body, context, session)
        events = await session.fetch("erasure.judge", [row["id"] for row in step.chosen], context.incarnation)
        if not body.dry_run and not body.force:
            _refuse_waiting(events)
        wanted = [row for row in events if not row["is_unsent"]]
        counts = Counter(await _counted(wanted, context, session))
        if not body.dry_run and wanted:
            counts |= await _erased(wanted, body, request, context, session)
    return ErasureOut(
        dry_run=body.dry_run, examined=step.examined, unread=step.unread,
        events=sum(not row["is_erased"] for row in wanted), erased_before=sum(row["is_erased"] for row in wanted),
        unknown=len(set(body.event_ids or ())) - len(step.chosen) if body.event_ids is not None else 0,
        unsent=len(events) - len(wanted), deliveries=sum(row["deliveries"] for row in wanted),
        jobs=sum(row["jobs"] for row in wanted), attempts=counts["attempts"], archived_jobs=counts["jobs"],
        not_reached=_not_reached(wanted, counts) if step.chosen else [],
        next_after=format_event_id(context.incarnation, step.last) if step.last is not None else None,
    )  # fmt: skip


def _refuse_unclear(body: ErasureIn) -> None:
    """Raise ``Problem`` unless the events are chosen in exactly one way."""
    ways = [name for name in ("key", "subject", "event_ids") if getattr(body, name) is not None]
    is_narrow = body.topic is not None
    if len(ways) != 1 or (ways == ["key"] and not is_narrow) or (ways == ["event_ids"] and is_narrow):
        detail = "Give topic and key, or a subject (with a topic, or of all topics), or event_ids."
        raise Problem("invalid-parameter", detail, parameter="event_ids")
    if body.event_ids is not None and body.after is not None:
        raise Problem("invalid-parameter", "after is for a key or a subject.", parameter="after")


class Step(NamedTuple):
    """The events of one request, locked. ``last`` is the last event of the step; None if it was the last step."""

    chosen: Sequence[Row]
    examined: int
    last: int | None = None
    unread: int | None = None


async def _chosen(body: ErasureIn, context: Context, session: Session) -> Step:
    """Choose the events, and lock them, so that no replay makes a delivery of them meanwhile."""
    if body.event_ids is not None:
        numbers = sorted({event_number(event, context.incarnation) for event in body.event_ids})
        chosen = await session.fetch("erasure.choose_ids", "default", numbers)
        return Step(chosen, len(chosen))
    after = event_number(body.after, context.incarnation) if body.after is not None else 0
    if body.subject is None:
        chosen = await session.fetch("erasure.choose", "default", body.topic, body.key, after, _EVENTS_MAX)
        return Step(chosen, len(chosen), chosen[-1]["id"] if len(chosen) == _EVENTS_MAX else None)
    found = await session.fetchrow(
        "erasure.find_subject", "default", after, body.subject, body.topic, _READ_MAX, _EVENTS_MAX
    )
    assert found is not None, "a row of scalars"
    chosen = await session.fetch("erasure.choose_ids", "default", found["ids"])
    return Step(chosen, found["examined"], found["last_id"], found["unread"])


def _refuse_waiting(events: Sequence[Row]) -> None:
    """Raise ``Problem`` if one of the events is still being delivered."""
    waiting = [row for row in events if row["deliveries"] or row["jobs"] or row["is_unsent"]]
    if not waiting:
        return
    deliveries, jobs = sum(row["deliveries"] for row in events), sum(row["jobs"] for row in events)
    unsent = sum(row["is_unsent"] for row in events)
    raise Problem(
        "erasure-waits",
        f"Of {len(events)} events {len(waiting)} are not done: open deliveries {deliveries}, live jobs {jobs}, "
        f"events that wait for a sink {unsent}.",
    )


async def _counted(wanted: Sequence[Row], context: Context, session: Session) -> dict[str, int]:
    row = await session.fetchrow("erasure.count", [row["id"] for row in wanted], context.incarnation)
    assert row is not None, "a row of counts"
    return dict(row)


async def _erased(
    wanted: Sequence[Row], body: ErasureIn, request: Request, context: Context, session: Session
) -> Counter[str]:
    """Erase, and add the entry of the audit trail. Return the counts."""
    ids, actor = [row["id"] for row in wanted], actor_of(request)
    lanes = await session.fetch("erasure.end_deliveries", ids)
    subscriptions = [lane["subscription_id"] for lane in lanes]
    await session.execute("erasure.promote_lanes", subscriptions, [lane["lane"] for lane in lanes])
    await session.execute("erasure.empty_jobs", ids, context.incarnation)
    await session.fetchval("erasure.end_jobs", ids, context.incarnation, actor)
    done = await session.fetchrow("erasure.erase", ids, context.incarnation, body.replace_key)
    assert done is not None, "a row of counts"
    of_topic = f" of the topic {body.topic}" if body.topic is not None else ""
    way = "events by their ids" if body.event_ids is not None else "a key" if body.key is not None else "a subject"
    subject = way + of_topic
    await session.execute("erasure.audit", "default", actor, subject, body.reason, len(ids))
    return Counter({"attempts": done["attempts"], "jobs": done["jobs"]})


def _not_reached(events: Sequence[Row], counts: Counter[str]) -> list[str]:
    """Return where copies of these events may be."""
    sinks = {sink for row in events for sink in row["sinks"]}
    places = [words for sink, words in _SINKS.items() if sink in sinks]
    if receivers := counts["receivers"]:
        places.append(f"{receivers} receiver{'s were' if receivers > 1 else ' was'} sent them")
    if "jobs" in sinks:
        places.append(_JOBS)
    return [*places, _KEPT_BYTES, _COPIES, _DOORS]
