"""/incidents/{id}/recover: one dead letter is sent as a probe; if it is delivered, the rest follows.

::

    letter --probe--> delivered --> one transaction: enable the subscription, begin the replays
                |                        of the incident, and of what was accepted while it was disabled
                '---> anything else --> nothing changes; the answer says what the receiver said
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Body, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.operating.incidents import IncidentId, known_incident
from app.web.api.operating.kept_answer import KeptAnswer
from app.web.api.operating.probes import (
    PROBE_EXAMPLE,
    UNEDITED,
    ProbeOut,
    SentLetter,
    known_letter,
    record_letter,
    send_letter,
)
from app.web.api.operating.replays import ReplayIn, begin_replay, count_replay
from app.web.api.route.actor import Reason, actor_of
from app.web.api.route.context import Context
from app.web.api.route.refusals import ACT, refusals
from app.web.api.route.strict_route import strict_router
from app.web.authentication import grant_of
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from hub.subscriptions import Stale, SubscriptionUpdate

__all__ = ["router"]

router = strict_router("/incidents", "incidents")
_ENABLED_BY_API: Final = "webhook"
_STATES: Final = ("active", "disabled")
_EXAMPLE: dict[str, Any] = {
    "incident_id": "inc_3",
    "dry_run": False,
    "recovered": True,
    "reason": "the probe was delivered",
    "subscription_id": "sub_3f1c0a9be2d45c7780aa",
    "enabled": True,
    "probe": PROBE_EXAMPLE,
    "replay_id": "replay_3",
    "missed_replay_id": "replay_4",
    "records": None,
    "missed": None,
    "missed_more": None,
    "more": None,
    "seconds_min": None,
}


class RecoverIn(Reason):
    """How the dead letters follow."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"rate_per_second": 50, "reason": "the shop is back"}]}
    )

    rate_per_second: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Deliveries per second, of each replay; null: its own pace, with room for live events.",
    )
    dry_run: bool = Field(False, description="Only count what would follow. Nothing is sent.")
    count_max: int = Field(100_000, ge=1, le=100_000, description="A dry run counts up to this number.")


class RecoverOut(BaseModel):
    """What was done, or what would be done."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    incident_id: str
    dry_run: bool
    recovered: bool = Field(description="The probe was delivered, and the dead letters follow. Else nothing changed.")
    reason: str = Field(description="Why, in one sentence.")
    subscription_id: str
    enabled: bool = Field(
        description="The subscription was enabled, its pause ended and its breaker closed; a dry run: it would be. "
        "False where it took deliveries already."
    )
    probe: ProbeOut | None = Field(description="The answer of the receiver; null in a dry run.")
    replay_id: str | None = Field(description="`GET /replays/{replay_id}` shows its progress.")
    missed_replay_id: str | None = Field(
        description="The replay of events that were accepted while the subscription was disabled; null without any."
    )
    records: int | None = Field(description="Of a dry run: dead letters that would follow, up to 100,000.")
    missed: int | None = Field(
        description="Of a dry run: events that were accepted while the subscription was disabled, among the next "
        "100,000. Null where they are unknown: it was disabled before the hub noted that."
    )
    more: bool | None = Field(description="Of a dry run: there are more dead letters.")
    missed_more: bool | None = Field(description="Of a dry run: there are more events that it may have missed.")
    seconds_min: float | None = Field(description="Of a dry run with a rate: how long they take at least.")


@router.post(
    "/{incident}/recover",
    summary="Probe an incident, and send its dead letters again if that is delivered",
    responses=refusals(*ACT, "forbidden", "invalid-header", "idempotency-key-in-flight", "idempotency-key-reused"),
)
@needs("operate", reach="route")
async def recover(
    incident: IncidentId, body: Annotated[RecoverIn, Body(default_factory=RecoverIn)], request: Request,
    response: Response, context: In,
    idempotency_key: Annotated[  # for the contract; KeptAnswer reads it as the other routes' layer does
        str | None,
        Header(alias="Idempotency-Key", max_length=255, description="A repeat gets the answer that recovered it."),
    ] = None,
) -> RecoverOut:  # fmt: skip
    """Sends one dead letter, as it is. Only if the answer is 2xx, the rest follows. A disabled or paused subscription
    is enabled. The other dead letters of the incident are sent again in the background. So are events that it missed
    while it was disabled.

    To enable a subscription, the key needs the scope `subscribe`, too. The attempt lasts as long as any of the
    subscription at most, and no transaction is open meanwhile.
    """
    kept = KeptAnswer(context.database, request, body.model_dump_json())
    if (known := await kept.find()) is not None:
        return _again(known, response)
    row = await known_incident(request, incident, context)
    letter = await known_letter(row["id"], None, context)
    subscription = await _subscription(row, request, context)
    found = RecoverOut(
        incident_id=incident, dry_run=body.dry_run, recovered=False, reason="nothing was sent",
        subscription_id=subscription["public_id"], enabled=_is_enabled_here(subscription), probe=None, replay_id=None,
        missed_replay_id=None, records=None, missed=None, more=None, missed_more=None, seconds_min=None,
    )  # fmt: skip
    replay = ReplayIn(
        source="dead_letters",
        incident_id=incident,
        rate_per_second=body.rate_per_second,
        reason=body.reason,
        count_max=body.count_max,
    )
    if body.dry_run:
        return await _foretold(found, replay, subscription, context)
    sent = await send_letter(letter, UNEDITED, body.reason, request, context)
    found = found.model_copy(update={"probe": sent.answer})
    if not sent.answer.delivered:
        await record_letter(sent, context, ends=False)
        return found.model_copy(update={"enabled": False, "reason": "the probe was not delivered: nothing was changed"})
    return await _follow(found, replay, subscription, sent, kept, request, response, context)


async def _foretold(found: RecoverOut, replay: ReplayIn, subscription: Row, context: Context) -> RecoverOut:
    """Count what would follow."""
    letters = await count_replay(replay, context)
    missed: int | None = 0
    more = False
    if subscription["state"] == "disabled":
        missed, more = await _missed(subscription, replay.count_max, context)
    most = max(letters.records, missed or 0)
    return found.model_copy(
        update={
            "records": letters.records, "missed": missed, "more": letters.more, "missed_more": more,
            "seconds_min": round(most / replay.rate_per_second, 1) if replay.rate_per_second else None,
        }
    )  # fmt: skip


async def _missed(subscription: Row, most: int, context: Context) -> tuple[int | None, bool]:
    """Return how many events a disabled subscription has missed, and whether there are more."""
    after = await context.database.fetchval("subscription.disabled_after", subscription["id"])
    if after is None:
        return None, False
    row = await context.database.fetchrow("replay.count_missed", subscription["id"], after, most)
    assert row is not None, "a row of aggregates"
    return row["records"], row["more"]


def _again(known: str, response: Response) -> RecoverOut:
    response.headers["Idempotency-Replayed"] = "true"
    return RecoverOut.model_validate_json(known)


async def _subscription(row: Row, request: Request, context: Context) -> Row:
    """Return the subscription of an incident; ``Problem`` where this key, or nobody, can make it take deliveries."""
    found = await context.subscriptions.get(row["public_id"])
    if found is None or found["state"] not in _STATES:
        raise Problem("invalid-parameter", "The subscription has ended: nothing is sent to it.", parameter="incident")
    if found["protocol"] != _ENABLED_BY_API and _is_stopped(found):
        detail = f"A subscription of the protocol {found['protocol']} is not enabled here. Probe it, and replay."
        raise Problem("invalid-parameter", detail, parameter="incident")
    if _is_enabled_here(found):
        grant = grant_of(request)
        if grant is not None and not grant.has("subscribe"):
            raise Problem("forbidden", "The subscription takes no deliveries; to enable it, a key needs subscribe.")
    return found


def _is_enabled_here(row: Row) -> bool:
    """Return whether recovering enables it."""
    return row["protocol"] == _ENABLED_BY_API and _is_blocked(row)


def _is_blocked(row: Row) -> bool:
    """Return whether it is disabled, its receiver asked for a pause, or its breaker is open; half-open it is not."""
    return _is_stopped(row) or (row["breaker_until"] is not None and row["breaker_until"] > row["now"])


def _is_stopped(row: Row) -> bool:
    """Return whether it is disabled, or its receiver asked for a pause."""
    paused = row["paused_until"] is not None and row["paused_until"] > row["now"]
    return row["state"] == "disabled" or paused


async def _follow(
    found: RecoverOut, replay: ReplayIn, subscription: Row, sent: SentLetter, kept: KeptAnswer, request: Request,
    response: Response, context: Context,
) -> RecoverOut:  # fmt: skip
    """Enable the subscription and begin the replays, in one transaction with the answer that is kept. The dead letter
    ends in it, too. So it stays where this fails, and the act can be repeated.
    """
    try:
        async with context.database.joined():
            await record_letter(sent, context, ends=True)
            if (known := await kept.find_locked()) is not None:
                return _again(known, response)
            missed = await _prepared(replay, subscription, request, context)
            await (_enable(subscription, request, context) if found.enabled else _check(subscription, context))
            number = await begin_replay(replay, request, context)
            done = found.model_copy(
                update={
                    "recovered": True, "reason": "the probe was delivered", "replay_id": f"replay_{number}",
                    "missed_replay_id": None if missed is None else f"replay_{missed}",
                }
            )  # fmt: skip
            await kept.keep(done.model_copy(update={"probe": _without_words(found.probe)}).model_dump_json())
    except (Stale, Problem) as error:
        await record_letter(sent, context, ends=False)
        if isinstance(error, Problem):
            raise
        reason = "the subscription was changed during the probe: nothing else was done"
        return found.model_copy(update={"enabled": False, "reason": reason})
    return done


async def _prepared(replay: ReplayIn, subscription: Row, request: Request, context: Context) -> int | None:
    """Begin the replay of what a disabled subscription has missed; None where there is no such thing."""
    if subscription["state"] != "disabled":
        return None
    number = subscription["id"]
    after = await context.database.fetchval("subscription.disabled_after", number)
    if after is None:
        return None
    made: int = await context.database.fetchval(
        "replay.prepare", "default", number, after, replay.rate_per_second, actor_of(request), replay.reason
    )
    return made


def _without_words(probe: ProbeOut | None) -> ProbeOut | None:
    """Return it without the receiver's words, which an erasure could not find."""
    return None if probe is None else probe.model_copy(update={"response_headers": None, "response_body": None})


async def _check(subscription: Row, context: Context) -> None:
    """Raise ``Stale`` if the subscription was changed or deleted during the probe."""
    present = await context.subscriptions.get(subscription["public_id"])
    if present is None or present["version"] != subscription["version"]:
        raise Stale


async def _enable(subscription: Row, request: Request, context: Context) -> None:
    """Enable the version that was probed. Raise ``Stale`` if it was changed or deleted meanwhile."""
    name = subscription["public_id"]
    update = SubscriptionUpdate(state="active")
    if await context.subscriptions.change(name, update, subscription["version"]) is None:
        raise Stale
    await context.database.execute("audit.add", "default", actor_of(request), "subscription.change", name)
