"""/sources: what is taken from others: Kafka topics, how far they are read, and what was refused; inbound sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Body, Path, Query, Request, Response

from app.settings.amqp_source import route_of
from app.web.api.dependency import In
from app.web.api.operating.source_contract import (
    ForgetIn,
    ForgottenOut,
    Move,
    PartitionOut,
    PassedOverOut,
    PausedOut,
    RefusalDetail,
    RefusalPage,
    ResetIn,
    ResetOut,
    SettledRefusal,
    SourceList,
    SourceOut,
)
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.paging import PAGE_DEFAULT, Limit, Paged, PagedFew, Paging
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import may_reach_topic
from app.web.problem import Problem
from app.web.scopes import needs
from db.errors import Refused
from db.pool import Row
from event.identity import format_event_id
from hub.intake.refusals import KeyIsHeld, NoRefusal, NoSource, RefusalOutcome, Refusals
from relay.kafka.source.passed_over import PassedOver
from relay.kafka.source.route import route_for
from relay.source import IntakeRefused

__all__ = ["router"]

router = strict_router("", "sources")
Source = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,249}$", examples=["stock"])]
SourceOrPattern = Annotated[str, Path(pattern=r"^[A-Za-z0-9._*-]{1,249}$", examples=["stock"])]
RefusalId = Annotated[str, Path(pattern=r"^refusal_[0-9]{1,18}$", examples=["refusal_7"])]
_PARTITIONS_MAX = 10_000
_DOORS_MAX = 10_000
_PATTERNS_MAX = 1_000
_NO_TOPIC = "What was refused has no topic yet. GET /sources counts it for the sources of your topics."
_VALUE_BYTES = 16_384
_VERB = refusals(*ACT)


@router.get("/sources", summary="List sources", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read", reach="route")
async def list_sources(request: Request, context: In, paging: PagedFew) -> SourceList:
    """Shows how far each partition of a Kafka topic is taken, and why it waits; which topics a pattern passes over; and
    the inbound sources. Queues of AMQP are in `GET /status`.

    A key for some topics gets the sources of these, without the patterns.
    """
    after = tuple(paging.after("", ""))
    reached = [one for one in await _all_sources(context) if _may_reach(request, one)]
    found = [one for one in reached if (one.source, one.kind) > after]
    last = found[paging.limit - 1] if len(found) > paging.limit else None
    next_cursor = paging.next_after(None if last is None else [last.source, last.kind])
    return SourceList(items=found[: paging.limit], next_cursor=next_cursor)


@router.post("/sources/{source}/pause", summary="Pause a source", responses=_VERB)
@needs("operate")
async def pause(source: Source, body: Reasoned, request: Request, context: In) -> PausedOut:
    """Its readers stop within a few seconds, in every process. Records wait in Kafka."""
    return await _pause(source, body, request, context, paused=True)


@router.post("/sources/{source}/resume", summary="Resume a source", responses=_VERB)
@needs("operate")
async def resume(source: Source, body: Reasoned, request: Request, context: In) -> PausedOut:
    """Its readers go on at the offsets in the database, within a few seconds."""
    return await _pause(source, body, request, context, paused=False)


@router.post("/sources/{source}/reset", summary="Move the offsets of a source", responses=_VERB)
@needs("operate")
async def reset(
    source: Source, body: Annotated[ResetIn, Body(default_factory=ResetIn)], request: Request, context: In
) -> ResetOut:
    """Tells the moves first; `"dry_run": false` makes them. A move back publishes records again."""
    asked = source, body.partition, body.offset
    moves = await context.database.fetch("source.moves", *asked)
    if not moves:
        raise Problem("not-found", "There is no such source or partition; it was never read.")
    if not body.dry_run:
        await context.database.execute("source.reset", *asked, actor_of(request), body.reason)
    return ResetOut(dry_run=body.dry_run, moves=[Move.model_validate(dict(row)) for row in moves])


@router.post("/sources/forget", summary="Forget a source that nobody reads", responses=_VERB)
@needs("operate")
async def forget(body: ForgetIn, request: Request, context: In) -> ForgottenOut:
    """`GET /status` has a source that nobody reads until a process reads it again, or it is forgotten. Its offsets and
    what it has refused stay.
    """
    done = await context.database.fetchval("verdict.forget", body.source, actor_of(request), body.reason)
    if not done:
        raise Problem("not-found", "There is no such source that nobody reads.")
    return ForgottenOut(forgotten=done)


@router.get(
    "/sources/{source}/refusals",
    summary="List refused records",
    responses=refusals("invalid-cursor", "invalid-parameter"),
)
@needs("read", instead=_NO_TOPIC)
async def list_refusals(source: Source, context: In, paging: Paged) -> RefusalPage:
    """Oldest first, without their values; `next_cursor` leads to the next page."""
    rows = await context.database.fetch("source.refusals", source, *paging.after(0), paging.limit + 1)
    return _refusals(rows, paging)


@router.get(
    "/source-refusals",
    summary="List what all sources refused",
    responses=refusals("invalid-cursor", "invalid-parameter"),
)
@needs("read", instead=_NO_TOPIC)
async def list_all_refusals(
    request: Request,
    response: Response,
    context: In,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Limit = PAGE_DEFAULT,
    source: Annotated[
        str | None, Query(max_length=255, pattern=r"^[^\x00]*$", description="Only of this Kafka topic or queue.")
    ] = None,
) -> RefusalPage:
    """Records of Kafka, and messages of AMQP whose queue can have no queue for them. Oldest first, without values."""
    paging = Paging(request, response, cursor, limit)
    if source is not None:
        return await list_refusals(source, context, paging)
    return _refusals(await context.database.fetch("source.all_refusals", *paging.after(0), limit + 1), paging)


def _refusals(rows: Sequence[Row], paging: Paging) -> RefusalPage:
    items = [_refusal(row) for row in rows[: paging.limit]]
    return RefusalPage.model_validate({"items": items, "next_cursor": paging.next_of(rows, "id")})


@router.get(
    "/source-refusals/{refusal}", summary="Show a refused record", responses=refusals("not-found", "invalid-parameter")
)
@needs("read", instead=_NO_TOPIC)
async def show_refusal(refusal: RefusalId, context: In) -> RefusalDetail:
    """Shows also the beginning of its value."""
    row = await context.database.fetchrow("source.shown_refusal", _number(refusal), _VALUE_BYTES)
    if row is None:
        raise _gone()
    value = None if row["value"] is None else row["value"].decode(errors="backslashreplace")
    return RefusalDetail.model_validate({**_refusal(row), "value": value})


@router.get("/sources/{source}", summary="Show a source", responses=refusals("not-found", "invalid-parameter"))
@needs("read", reach="route")
async def show_source(source: SourceOrPattern, request: Request, context: In) -> SourceOut:
    """Shows how far each partition is taken, and why it waits; of a pattern, which topics it passes over. Of a Kafka
    topic and an inbound source of one name, it shows the Kafka topic.
    """
    named = [one for one in (*await _sources(context), *await _patterns(context)) if one.source == source]
    if (door := await context.database.fetchrow("inbound.with_requests", source)) is not None:
        named.append(_of_door(door))
    for one in named:
        if _may_reach(request, one):
            return one
    raise Problem("not-found", "There is no such source; it was never read.")


@router.post("/source-refusals/{refusal}/retry", summary="Publish a refused record", responses=_VERB)
@needs("operate")
async def retry(refusal: RefusalId, body: Reasoned, request: Request, context: In) -> SettledRefusal:
    """Reads it again, by the settings and limits of this process. If it holds its key, records that waited for it
    follow in their order; otherwise it comes behind later records of its key.
    """
    try:
        settled = await _kept(context).retry(_number(refusal), actor_of(request), body.reason)
    except NoRefusal:
        raise _gone() from None
    except NoSource as missing:
        raise _unknown(missing) from None
    except KeyIsHeld as held:
        raise _still(f"{held}; retry or skip that one first.") from None
    except IntakeRefused as refused:
        raise _still(str(refused)) from None
    except Refused as error:
        if not error.is_ours:
            raise
        raise _still(error.message) from None
    return _settled(refusal, settled, context)


@router.post("/source-refusals/{refusal}/give-up", summary="Forget a refused record", responses=_VERB)
@needs("operate")
async def give_up(refusal: RefusalId, body: Reasoned, request: Request, context: In) -> SettledRefusal:
    """Deletes the record from the list of refused ones. It stays in Kafka. Records that waited for it follow."""
    try:
        settled = await _kept(context).give_up(_number(refusal), actor_of(request), body.reason)
    except NoRefusal:
        raise _gone() from None
    except NoSource as missing:
        raise _unknown(missing) from None
    return _settled(refusal, settled, context)


async def _all_sources(context: Context) -> list[SourceOut]:
    rows = await context.database.fetch("inbound.list", "", _DOORS_MAX)
    found = [*await _sources(context), *await _patterns(context), *map(_of_door, rows)]
    return sorted(found, key=lambda one: (one.source, one.kind))


def _may_reach(request: Request, one: SourceOut) -> bool:
    """Return whether the key of this request includes a source; a pattern tells of topics of any name."""
    return may_reach_topic(request, None if one.kind == "pattern" else one.topic)


def _of_door(row: Row) -> SourceOut:
    template = json.loads(row["settings"]).get("topic") or "{source}.{type}"
    return SourceOut(
        source=row["name"], kind="webhooks", topic=template.replace("{source}", row["name"]), paused=False, lag=0,
        age_seconds=None, rate=None, refused=0, partitions=[], preset=row["preset"], accepted_at=row["accepted_at"],
        refused_at=row["refused_at"],
    )  # fmt: skip


async def _sources(context: Context) -> list[SourceOut]:
    topic_of = _topic_of(context)
    found: dict[str, list[Row]] = {}
    for row in await context.database.fetch("source.list", _PARTITIONS_MAX):
        found.setdefault(row["source"], []).append(row)
    return [_source(name, topic_of(name), of) for name, of in sorted(found.items())]


async def _patterns(context: Context) -> list[SourceOut]:
    topics = {route.source: route.topic for route in context.settings.kafka_routes()}
    rows = await context.database.fetch("source.patterns", _PATTERNS_MAX)
    return [_of_pattern(row, topics.get(row["pattern"])) for row in rows]


def _of_pattern(row: Row, topic: str | None) -> SourceOut:
    noted = [PassedOver(one["topic"], one["kind"], one["reason"]) for one in json.loads(row["passed_over"])]
    passed_over = [PassedOverOut(**one._asdict(), is_unread=one.is_unread) for one in noted]
    return SourceOut(
        source=row["pattern"], kind="pattern", topic=topic, paused=False, lag=0, age_seconds=None, rate=None, refused=0,
        partitions=[], preset=None, accepted_at=None, refused_at=None, passed_over=passed_over,
        passed_over_count=row["passed_over_count"],
    )  # fmt: skip


def _kept(context: Context) -> Refusals:
    settings = context.settings
    queues = {route.queue: route for route in map(route_of, settings.amqp_sources)}
    return Refusals(context.database, context.incarnation, _topic_of(context), settings.event_bytes_max, queues)


async def _pause(source: str, body: Reason, request: Request, context: Context, *, paused: bool) -> PausedOut:
    if not await context.database.fetchval("source.pause", source, paused, actor_of(request), body.reason):
        raise Problem("not-found", "There is no such source; it was never read.")
    return PausedOut(source=source, paused=paused)


def _topic_of(context: Context) -> Callable[[str], str | None]:
    """Return a function that tells the topic of a source by the settings of this process; None if they lack it."""
    routes = context.settings.kafka_routes()
    return lambda name: None if (route := route_for(routes, name)) is None else route.topic


def _still(detail: str) -> Problem:
    return Problem("invalid-parameter", f"The record still cannot be an event: {detail}", parameter="refusal")


def _unknown(missing: NoSource) -> Problem:
    return _still(f"the sources in the settings of this process do not include {missing}.")


def _settled(refusal: str, settled: RefusalOutcome, context: Context) -> SettledRefusal:
    events = [format_event_id(context.incarnation, number) for number in settled.events]
    held_by = None if settled.held_by is None else f"refusal_{settled.held_by}"
    return SettledRefusal(id=refusal, events=events, released=settled.released, held_by=held_by)


def _gone() -> Problem:
    return Problem("not-found", "There is no such record; it was published or skipped, or its time is over.")


def _number(refusal: str) -> int:
    return int(refusal.removeprefix("refusal_"))


def _source(name: str, topic: str | None, rows: Sequence[Row]) -> SourceOut:
    partitions = [
        PartitionOut.model_validate({**row, "lag": _lag(row), "age_seconds": _age(row)})
        for row in rows
        if row["partition"] is not None
    ]
    ages = [one.age_seconds for one in partitions if one.age_seconds is not None]
    rates = [one.rate for one in partitions if one.rate is not None]
    return SourceOut(
        source=name, kind="kafka", topic=topic, paused=rows[0]["is_paused"],
        lag=sum(one.lag or 0 for one in partitions), age_seconds=max(ages, default=None),
        rate=round(sum(rates), 1) if rates else None, refused=rows[0]["refused"], partitions=partitions,
        preset=None, accepted_at=None, refused_at=None,
    )  # fmt: skip


def _lag(row: Row) -> int | None:
    return None if row["end_offset"] is None else max(row["end_offset"] - row["next_offset"], 0)


def _age(row: Row) -> float | None:
    """Return the age of the record that was taken last; 0 if no record waits."""
    if _lag(row) == 0:
        return 0.0
    return None if row["age_seconds"] is None else round(row["age_seconds"], 1)


def _refusal(row: Row) -> dict[str, Any]:
    key = None if row["key"] is None else row["key"].decode(errors="backslashreplace")
    return {**row, "id": f"refusal_{row['id']}", "offset": row["record_offset"], "key": key}
