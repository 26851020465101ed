"""/subscriptions/{id}/stats: attempts by minute, hour or day, with the times that they took."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.verdict.counts import EXACT_MAX
from app.verdict.grain import KEPT, LENGTHS, Grain
from app.web.api.dependency import In
from app.web.api.route.known_subscription import find
from app.web.api.route.moment import TIMES_EXAMPLE, Quantiles, Since, Until, rate, span_of, whole
from app.web.api.route.refusals import refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from runtime.duration_histogram import DurationHistogram
from webhooks.condition import WAITING_MAX

__all__ = ["SubscriptionStats", "router"]

router = strict_router("/subscriptions", "subscriptions", "invalid-parameter")
_USUAL_MAX: Final[Sequence[tuple[timedelta, Grain]]] = ((timedelta(hours=3), "minute"), (timedelta(days=7), "hour"))
_POINTS_MAX: Final = 1_500
_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_POINT: dict[str, Any] = {
    "at": "2026-01-15T10:02:00Z", "attempts": 620, "delivered": 618, "attempt_seconds": TIMES_EXAMPLE,
    "age_seconds": TIMES_EXAMPLE,
}  # fmt: skip


class StatsPoint(BaseModel):
    """The attempts of one minute, hour or day."""

    model_config = ConfigDict(json_schema_extra={"examples": [_POINT]})

    at: datetime = Field(description="When it begins.")
    attempts: int
    delivered: int
    attempt_seconds: Quantiles
    age_seconds: Quantiles


class SubscriptionStats(BaseModel):
    """The attempts of a subscription in a span of time, and what waits now."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "since": "2026-01-15T09:03:00Z", "until": "2026-01-15T10:03:00Z", "grain": "minute",
                    "as_of": "2026-01-15T10:02:41.120455Z", "attempts": 620, "delivered": 618, "failed": 2,
                    "success": 0.9968, "attempts_per_second": 0.172, "attempt_seconds": TIMES_EXAMPLE,
                    "age_seconds": TIMES_EXAMPLE, "waiting": 2, "oldest_seconds": 12.1, "drained_seconds": 11.6,
                    "event_days": 7, "points": [_POINT],
                }
            ]
        }
    )  # fmt: skip

    since: datetime
    until: datetime
    grain: Grain
    as_of: datetime = Field(description="Later attempts may be missing: they are counted once a minute.")
    attempts: int
    delivered: int
    failed: int
    success: float | None = Field(description="Delivered of all attempts, 0 to 1; null without an attempt.")
    attempts_per_second: float
    attempt_seconds: Quantiles = Field(description="How long attempts took, exact within a tenth.")
    age_seconds: Quantiles = Field(
        description="From the acceptance of an event to its delivery. Replays, and receivers that fetch, are not timed."
    )
    waiting: int = Field(description="Open deliveries now, up to 100,000.")
    oldest_seconds: float | None = Field(description="For how long the oldest of them has waited.")
    drained_seconds: float | None = Field(
        description="How long those take at the rate of deliveries in this span; null without a delivery."
    )
    event_days: int | None = Field(
        description="How long events are kept by default. A replay can send what a pause left out, up to then; null: "
        "for ever."
    )
    points: list[StatsPoint] = Field(description="Those with an attempt, oldest first.")


@router.get("/{subscription_id}/stats", summary="Get a subscription's rates and times", responses=refusals("not-found"))
@needs("subscribe", "read", reach="route")
async def stats(
    request: Request,
    subscription_id: str,
    context: In,
    since: Since = None,
    until: Until = None,
    grain: Annotated[
        Grain | None,
        Query(
            description="Default: minutes up to 3 hours, hours up to 7 days, else days; a coarser one for old spans."
        ),
    ] = None,
) -> SubscriptionStats:
    """Minutes are kept for 2 days, hours for 60, days for 400. A span begins and ends with a whole one, in UTC."""
    row = await find(request, subscription_id, context)
    begin, end = span_of(since, until, row["now"])
    unit = grain if grain is not None else _usual_grain(begin, end, row["now"])
    start, end = whole(begin, end, LENGTHS[unit], _POINTS_MAX)
    if grain is not None and row["now"] - start > KEPT[unit] + LENGTHS[unit]:
        detail = f"The rows of a {unit} are kept for {KEPT[unit].days} days; take a coarser grain, or a later since."
        raise Problem("invalid-parameter", detail, parameter="grain")
    as_of = await context.database.fetchval("rollup.folded_until")
    points = await context.database.fetch("rollup.points", row["id"], unit, start, end, _POINTS_MAX)
    waiting = row["waiting"]
    if waiting >= WAITING_MAX:
        waiting = await context.database.fetchval("console.waiting", row["id"], EXACT_MAX)
    oldest = (row["now"] - row["waiting_since"]).total_seconds() if row["waiting_since"] else None
    totals = _totals(points)
    delivered_per_second = rate(totals["delivered"], start, end, row["now"])
    return SubscriptionStats(
        since=start, until=end, grain=unit, as_of=as_of, waiting=waiting, oldest_seconds=oldest,
        drained_seconds=waiting / delivered_per_second if delivered_per_second else None,
        attempts_per_second=rate(totals["attempts"], start, end, row["now"]),
        event_days=context.settings.retention_days or None, points=[_point(point) for point in points], **totals,
    )  # fmt: skip


def _usual_grain(begin: datetime, end: datetime, now: datetime) -> Grain:
    """Return the finest grain that suits the length of the span, and that is still kept of its beginning."""
    fitting = (grain for longest, grain in _USUAL_MAX if end - begin <= longest and now - begin <= KEPT[grain])
    return next(fitting, "day")


def _point(point: Row) -> StatsPoint:
    latencies, ages = _histograms([point])
    return StatsPoint(
        at=point["at"], attempts=point["attempts"], delivered=point["delivered"], attempt_seconds=_quantiles(latencies),
        age_seconds=_quantiles(ages),
    )  # fmt: skip


def _totals(points: Sequence[Row]) -> dict[str, Any]:
    """Return the sums over these rows."""
    latencies, ages = _histograms(points)
    attempts, delivered = (sum(point[name] for point in points) for name in ("attempts", "delivered"))
    return {
        "attempts": attempts,
        "delivered": delivered,
        # A late success adds a delivery to an attempt that an earlier span has.
        "failed": max(attempts - delivered, 0),
        "success": min(delivered / attempts, 1.0) if attempts else None,
        "attempt_seconds": _quantiles(latencies),
        "age_seconds": _quantiles(ages),
    }


def _histograms(points: Sequence[Row]) -> tuple[DurationHistogram, DurationHistogram]:
    latencies, ages = DurationHistogram(), DurationHistogram()
    for point in points:
        latencies.add(point["latency_buckets"], point["latency_counts"])
        ages.add(point["age_buckets"], point["age_counts"])
    return latencies, ages


def _quantiles(times: DurationHistogram) -> Quantiles:
    return Quantiles(**{name: times.quantile(share) for name, share in _QUANTILES.items()})
