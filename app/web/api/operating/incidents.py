"""/incidents: failures grouped by their cause, with a state that people set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.actor import Reason, Reasoned, actor_of
from app.web.api.route.context import Context
from app.web.api.route.known_subscription import find, is_reached
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import may_reach_topic, shows_payloads
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row

__all__ = ["IncidentId", "IncidentState", "incident_number", "known_incident", "router"]

router = strict_router("/incidents", "incidents")
IncidentId = Annotated[str, Path(pattern=r"^inc_[0-9]{1,18}$", examples=["inc_3"])]
IncidentState = Literal["open", "acknowledged", "resolved", "ignored"]
IncidentKind = Literal["cause", "other", "before", "held"]
COUNTED_MAX: Final = 100_000
_LARGEST: Final = 2**63 - 1
_STATES: Final[Sequence[str]] = ("open", "acknowledged", "resolved", "ignored")
_NOT_OVER: Final[Sequence[str]] = ("open", "acknowledged")
_VERB = refusals(*ACT)
_EXAMPLE: dict[str, Any] = {
    "id": "inc_3",
    "kind": "cause",
    "state": "open",
    "active": True,
    "sink": "webhooks",
    "subscription_id": "sub_3f1c0a9be2d45c7780aa",
    "topic": "orders.created",
    "callback": "http://127.0.0.1:9000/hook",
    "outcome": "server_error",
    "status": 503,
    "excerpt": "upstream checkout is down, request ID",
    "waiting": 12,
    "dead": 3041,
    "more": False,
    "failures": 30482,
    "failures_5_minutes": 310,
    "failures_hour_before": 12,
    "first_at": "2026-01-15T09:31:07.131002Z",
    "last_at": "2026-01-15T10:02:44.000117Z",
    "changed_at": "2026-01-15T09:31:07.131002Z",
    "actor": None,
    "reason": None,
}


class IncidentOut(BaseModel):
    """A cause of failures."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    kind: IncidentKind = Field(
        description="cause: failures of a subscription with the same class, status and beginning of the answer. other: "
        "those of a subscription with 50 causes already. before: dead letters of before the upgrade, by class and "
        "status. held: records that a sink holds for one reason."
    )
    state: IncidentState
    active: bool = Field(
        description="The rate of five minutes rose above five times that of the hour before, and is not back at it."
    )
    sink: Literal["kafka", "amqp", "webhooks", "jobs"]
    subscription_id: str | None = Field(description="Null for held records.")
    topic: str | None = Field(description="The topic or pattern of the subscription.")
    callback: str | None
    outcome: str = Field(description="The class of the failure, or the reason of the holds.")
    status: int | None = Field(description="The status of the answer.")
    excerpt: str | None = Field(
        description="The beginning of the answer, with ID, TIME, TOKEN, ADDRESS and N for what differs each time. Null "
        "without the scope `payloads`."
    )
    waiting: int = Field(description="Open deliveries whose last failure it was, or held records; up to 100,000.")
    dead: int = Field(description="Dead letters, up to 100,000.")
    more: bool = Field(description="One of the two counts stopped at 100,000; there are more.")
    failures: int = Field(description="Failed attempts since it began.")
    failures_5_minutes: int
    failures_hour_before: int = Field(description="Failed attempts in the hour before these five minutes.")
    first_at: datetime
    last_at: datetime
    changed_at: datetime = Field(description="When it got its state.")
    actor: str | None = Field(description="Who gave it its state; null: the hub.")
    reason: str | None


class MinuteOut(BaseModel):
    """The failures of one minute."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at": "2026-01-15T10:02:00Z", "failures": 62}]})

    at: datetime
    failures: int


class IncidentDetail(IncidentOut):
    """A cause of failures with its last 65 minutes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{**_EXAMPLE, "minutes": [{"at": "2026-01-15T10:02:00Z", "failures": 62}]}]
        }
    )  # fmt: skip

    minutes: list[MinuteOut] = Field(description="Minutes with a failure, oldest first.")


class IncidentPage(BaseModel):
    """A page of incidents, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[IncidentOut]
    next_cursor: str | None


def _out(row: Row, *, with_excerpt: bool) -> dict[str, Any]:
    counts = {name: min(row[name], COUNTED_MAX) for name in ("waiting", "dead")}
    return {
        **row,
        **counts,
        "id": f"inc_{row['id']}",
        "active": row["is_active"],
        "subscription_id": row["public_id"],
        "excerpt": row["excerpt"] if with_excerpt else None,
        "more": any(row[name] > COUNTED_MAX for name in counts),
        "failures": row["failures"] + row["unfolded"],
        "failures_5_minutes": row["lately"],
        "failures_hour_before": row["before"],
        "last_at": max(row["last_at"], row["unfolded_at"] or row["last_at"]),
    }


def incident_number(incident: str) -> int:
    """Return the number of ``inc_3``."""
    return int(incident.removeprefix("inc_"))


def _may_see(request: Request, row: Mapping[str, Any]) -> bool:
    """Return whether the key reaches its subscription; held records need a key for every topic."""
    if row["subscription_id"] is None:
        return may_reach_topic(request, None)
    return row["topic"] is not None and is_reached(request, {**row, "kind": row["job_kind"]})


async def known_incident(request: Request, incident: str, context: Context) -> Row:
    """Return the incident of this id without counts, if the request's key may see it; else ``Problem``."""
    row = await context.database.fetchrow("incident.get", "default", incident_number(incident))
    if row is None or not _may_see(request, row):
        raise Problem("not-found", "There is no such incident.")
    return row


@router.get("", summary="List incidents", responses=refusals("invalid-cursor", "invalid-parameter", "not-found"))
@needs("read", reach="route")
async def list_incidents(
    request: Request,
    context: In,
    paging: Paged,
    state: Annotated[IncidentState | None, Query(description="Default: open and acknowledged.")] = None,
    kind: Annotated[IncidentKind | None, Query()] = None,
    active: Annotated[bool, Query(description="Only active ones.")] = False,
    subscription_id: Annotated[str | None, Query(max_length=60, pattern=r"^[ -~]*$")] = None,
) -> IncidentPage:
    """Newest first; `Link: rel="next"` and `next_cursor` lead to the next page.

    A key for some topics gets the incidents of subscriptions to these. A page may then hold fewer items, or none.
    """
    subscription = (await find(request, subscription_id, context))["id"] if subscription_id is not None else None
    states = [state] if state is not None else _NOT_OVER
    rows = await context.database.fetch_filtered(
        "incident.page", "default", subscription, states, kind, active, *paging.after(_LARGEST), paging.limit + 1
    )
    mine = [row for row in rows[: paging.limit] if _may_see(request, row)]
    items = [_out(row, with_excerpt=shows_payloads(request)) for row in mine]
    return IncidentPage.model_validate({"items": items, "next_cursor": paging.next_of(rows, "id")})


@router.get("/{incident}", summary="Get an incident", responses=refusals("not-found", "invalid-parameter"))
@needs("read", reach="route")
async def show(incident: IncidentId, request: Request, context: In) -> IncidentDetail:
    """Includes its failures by minute. `GET /dead-letters?incident_id=` lists what it left."""
    number = (await known_incident(request, incident, context))["id"]
    rows = await context.database.fetch_filtered(
        "incident.page", "default", None, _STATES, None, False, number + 1, 1
    )  # fmt: skip
    if not rows or rows[0]["id"] != number:  # it ended meanwhile
        raise Problem("not-found", "There is no such incident.")
    minutes = await context.database.fetch("incident.minutes", number)
    shown = _out(rows[0], with_excerpt=shows_payloads(request))
    return IncidentDetail.model_validate(shown | {"minutes": [dict(one) for one in minutes]})


@router.post("/{incident}/acknowledge", summary="Acknowledge an incident", responses=_VERB)
@needs("operate", reach="route")
async def acknowledge(incident: IncidentId, body: Reasoned, request: Request, context: In) -> IncidentDetail:
    """Says that a person knows about it. It stays so until it is resolved or ignored."""
    return await _turn(incident, "acknowledged", "acknowledge", body, request, context)


@router.post("/{incident}/resolve", summary="Resolve an incident", responses=_VERB)
@needs("operate", reach="route")
async def resolve(incident: IncidentId, body: Reasoned, request: Request, context: In) -> IncidentDetail:
    """Says that its cause is gone. A later failure of the same cause opens it again."""
    return await _turn(incident, "resolved", "resolve", body, request, context)


@router.post("/{incident}/ignore", summary="Ignore an incident", responses=_VERB)
@needs("operate", reach="route")
async def ignore(incident: IncidentId, body: Reasoned, request: Request, context: In) -> IncidentDetail:
    """It is counted, and nobody is told about it any more."""
    return await _turn(incident, "ignored", "ignore", body, request, context)


@router.post("/{incident}/reopen", summary="Open an incident again", responses=_VERB)
@needs("operate", reach="route")
async def reopen(incident: IncidentId, body: Reasoned, request: Request, context: In) -> IncidentDetail:
    """Takes back an acknowledgement, an end, or that it is ignored."""
    return await _turn(incident, "open", "reopen", body, request, context)


async def _turn(
    incident: str, state: IncidentState, verb: str, body: Reason, request: Request, context: Context
) -> IncidentDetail:
    """Set a state, with its audit entry and its notice; one that it has already changes nothing."""
    row = await known_incident(request, incident, context)
    await context.database.fetchrow(
        "incident.set_state", "default", row["id"], state, actor_of(request), body.reason, verb
    )
    return await show(incident, request, context)
