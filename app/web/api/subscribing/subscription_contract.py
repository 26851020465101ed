"""Bodies of the routes of /subscriptions: requests and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.web.api.route.condition import BlockedBy, ConditionReason, NextAttemptAt
from app.web.api.subscribing.scope_warnings import ScopeWarning
from webhooks.chat import TEMPLATE_MAX
from webhooks.condition import Health

__all__ = [
    "DeliveryOptions",
    "SubscriptionChange",
    "SubscriptionCreated",
    "SubscriptionDetail",
    "SubscriptionIn",
    "SubscriptionOut",
    "SubscriptionPage",
]

Format = Literal["as_published", "raw", "binary", "structured", "batch", "websub_ping", "slack", "mattermost"]
Mode = Literal["at_least_once", "at_most_once", "ordered"]
Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=40)], Annotated[str, Field(max_length=500)]],
    Field(max_length=20),
]
Schedule = Annotated[list[Annotated[int, Field(ge=0, le=604_800)]], Field(max_length=50)]


class Naming(BaseModel):
    """Names of a subscription for people; they change nothing else."""

    name: Annotated[str, Field(max_length=100)] | None = None
    description: Annotated[str, Field(max_length=1_000)] | None = None
    metadata: Metadata | None = Field(None, description="Names and values of your own, such as an owner; 20 at most.")


class DeliveryOptions(Naming):
    """Options of the delivery of events."""

    retry_schedule_seconds: Schedule | None = Field(None, description="Pauses between attempts; null: the hub's.")
    retry_age_seconds_max: int | None = Field(
        None, ge=1, le=31_536_000, description="Largest age of a delivery at an attempt; null: the hub's."
    )
    on_4xx: Literal["retry", "give_up"] | None = Field(
        None, description="give_up: a 4xx other than 408, 425 and 429 is final for the delivery. None: retry."
    )
    on_410: Literal["end", "as_4xx"] | None = Field(
        None, description="as_4xx: a 410 does not end the subscription. None: end."
    )
    on_exhausted: Literal["park", "skip"] | None = Field(
        None,
        description="Ordered: when the schedule of a key's head is used up, the key waits (park), or the head becomes "
        "a dead letter and the key goes on (skip). None: park, for one that is made ordered.",
    )
    timeout_seconds: float | None = Field(None, ge=1, le=30, description="Deadline of one attempt; null: the hub's.")
    rate_per_second: float | None = Field(
        None,
        ge=0.001,
        le=100_000,
        description="Attempts in the whole fleet; further deliveries wait. None: no limit.",
    )
    rate_burst: int | None = Field(
        None, ge=1, le=100_000, description="Attempts at once after a pause; null: those of a second."
    )
    format: Format | None = Field(
        None,
        description="as_published: CloudEvents binary mode for published CloudEvents, else the bare content. raw: "
        "never a CloudEvent. binary, structured: always one. batch: a JSON array of them, up to `batch_max`. "
        "websub_ping: the callback is another WebSub hub, which gets hub.mode=publish and fetches the topic. slack, "
        "mattermost: a line for a chat's incoming webhook, written by `template`. "
        "None: as_published.",
    )
    batch_max: int | None = Field(
        None, ge=1, le=1000, description="How many events one request carries at most; needed for format batch."
    )
    template: str | None = Field(
        None,
        max_length=TEMPLATE_MAX,
        description="For chats: text with `{id}`, `{topic}`, `{key}`, `{time}`, `{content}`, `{data.a.b}` (of JSON). "
        "None: topic and content.",
    )
    headers: dict[str, str] | None = Field(
        None, description="Sent with each delivery, such as Authorization. Sealed; their values are never shown again."
    )


class SubscriptionIn(DeliveryOptions):
    """A new subscription."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"topic": "orders.*", "callback": "http://127.0.0.1:9000/hook"}]},
    )

    topic: str | None = Field(
        None, description="A topic's name or a pattern: `*` is one word, `#` any number of words."
    )
    service: str | None = Field(
        None,
        description="Instead of a topic: the callback works for this service. Each request is POSTed, and the body of "
        "the 2xx answer is the reply. Of the options only `timeout_seconds` and `headers` count.",
    )
    kind: str | None = Field(
        None,
        description="Instead of a topic: the callback works on jobs of this kind. Each job is POSTed as an item of "
        "`POST /jobs/claim`, and the answer settles it: 2xx with the result, Retry-After for later, another 4xx gives "
        "up. Of the options only `timeout_seconds` and `headers` count.",
    )
    queue: str | None = Field(None, description="With `kind`: the queue of the jobs. None: `default`.")
    callback: str = Field(description="Where events, requests or jobs are POSTed; kept byte for byte.")
    secret: str | None = Field(
        None, description="`whsec_` + base64 of 24-64 bytes, or `whsk_`; default: the hub makes one.", max_length=200
    )
    state: Literal["active", "disabled"] = Field("active", description="A disabled subscription gets no deliveries.")
    mode: Mode | None = Field(
        None,
        description="at_least_once: repeats are possible. at_most_once: each event is tried once and may be missed. "
        "ordered: at least once, each key's events one after the other. None: as `ordered` says.",
    )
    ordered: bool = Field(False, description="Short for `mode` ordered.")
    filter: dict[str, Any] | None = Field(None, description="Filter on content; null: all events.")


class SubscriptionChange(DeliveryOptions):
    """Changes of a subscription; a missing field stays. A null option gets its default again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"state": "disabled"}]})

    topic: str | None = None
    callback: str | None = None
    state: Literal["active", "disabled"] | None = None
    drains: bool | None = Field(
        None, description="With the state `disabled`: what waits is sent, and nothing new comes in. Else it waits."
    )
    mode: Mode | None = None
    ordered: bool | None = None
    filter: dict[str, Any] | None = Field(None, description="An empty filter ends filtering.")


_SECRET_EXAMPLE = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - an example
_EXAMPLE: dict[str, Any] = {
    "id": "sub_3f1c0a9be2d45c7780aa",
    "protocol": "webhook",
    "topic": "orders.*",
    "service": None,
    "kind": None,
    "queue": None,
    "callback": "http://127.0.0.1:9000/hook",
    "state": "active",
    "state_reason": None,
    "drains": False,
    "name": "warehouse",
    "description": None,
    "metadata": {"owner": "team-orders"},
    "mode": "at_least_once",
    "ordered": False,
    "retry_schedule_seconds": None,
    "retry_age_seconds_max": None,
    "on_4xx": "retry",
    "on_410": "end",
    "on_exhausted": "skip",
    "timeout_seconds": None,
    "rate_per_second": 50.0,
    "rate_burst": None,
    "format": "as_published",
    "batch_max": None,
    "template": None,
    "request_origin": None,
    "header_names": None,
    "lease_until": None,
    "paused_until": None,
    "breaker_open_until": None,
    "health": "healthy",
    "reason": "the last success was at 2026-01-15T09:31:07Z",
    "blocked_by": None,
    "failing_since": None,
    "last_success_at": "2026-01-15T09:31:07.131002Z",
    "waiting": 0,
    "next_attempt_at": None,
    "filter": {"data": {"amount": {"$gte": 100}}},
    "created_at": "2026-01-15T09:30:00Z",
    "updated_at": "2026-01-15T09:30:00Z",
}


class SubscriptionOut(BaseModel):
    """A subscription in its present state."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    protocol: Literal["webhook", "websub", "pull", "rabbithub", "service", "job"]
    topic: str = Field(description="With `service` or `kind`: a name that no event has as its topic.")
    service: str | None = Field(description="The service that the callback works for.")
    kind: str | None = Field(description="The kind of jobs that the callback works on.")
    queue: str | None = Field(description="With `kind`: the queue of the jobs.")
    callback: str = Field(description="Empty for a pull subscription.")
    state: Literal["active", "disabled", "gone", "expired", "denied"]
    state_reason: str | None
    drains: bool = Field(description="It is disabled, and what waits is sent.")
    name: str | None
    description: str | None
    metadata: dict[str, str] | None
    mode: Mode
    ordered: bool
    retry_schedule_seconds: list[int] | None
    retry_age_seconds_max: int | None
    on_4xx: Literal["retry", "give_up"]
    on_410: Literal["end", "as_4xx"]
    on_exhausted: Literal["park", "skip"]
    timeout_seconds: float | None
    rate_per_second: float | None
    rate_burst: int | None
    format: Format
    batch_max: int | None
    template: str | None
    request_origin: str | None = Field(description="CloudEvents handshake: the origin that the callback agreed to.")
    header_names: list[str] | None = Field(description="The subscriber's own headers, sent with each delivery.")
    lease_until: datetime | None = Field(description="WebSub: when the lease ends.")
    paused_until: datetime | None = Field(description="The receiver asked for a pause until then (429).")
    breaker_open_until: datetime | None = Field(
        description="The breaker is open until then, because the receiver fails often; after that one delivery at a "
        "time is tried."
    )
    health: Health = Field(
        description="Whether its receiver answers: healthy, untried (nothing was sent yet), slow (deliveries have "
        "waited for a minute, and it answers slowly), behind (they have waited for another reason), "
        "failing (no success since `failing_since`), paused (by its receiver); else its state."
    )
    reason: ConditionReason
    blocked_by: BlockedBy
    failing_since: datetime | None = Field(description="The first failure since the last success.")
    last_success_at: datetime | None = Field(description="Time of the last success. None: no success is known.")
    waiting: int = Field(description="Open deliveries, counted up to 1,000; for one subscription up to 100,000.")
    next_attempt_at: NextAttemptAt
    filter: dict[str, Any] | None = Field(description="Filter on content; null: all events.")
    created_at: datetime
    updated_at: datetime


class SubscriptionDetail(SubscriptionOut):
    """One subscription with its warnings."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "warnings": ["matches_everything"]}]})

    warnings: list[ScopeWarning] = Field(
        description="matches_everything: its pattern is `#`. plain_http: events leave the machine unencrypted. "
        "refused_callback: the policy of outgoing requests refuses the callback. never_answered: it fails, and no "
        "success is known. never_verified: neither a success nor a handshake is known. old_secret: the newest signing "
        "key is older than a year."
    )


class SubscriptionCreated(SubscriptionOut):
    """A new subscription with its secret, which is shown only now."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "secret": _SECRET_EXAMPLE}]})

    secret: str | None = Field(
        description="Verify deliveries with it (Standard Webhooks). Shown only here; null in a repeated answer."
    )


class SubscriptionPage(BaseModel):
    """A page of subscriptions in order of creation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[SubscriptionOut]
    next_cursor: str | None
