"""What the hub answers with: a frozen dataclass for each kind. Written by ``scripts/client_nouns.py``.

Members that a newer hub adds are in ``extra``. Moments are aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from hookwire.model import Model

__all__ = [
    "Archived",
    "Attempt",
    "Audit",
    "CarriedSink",
    "Chosen",
    "Claimed",
    "ClaimedJob",
    "Consumer",
    "DeadLetter",
    "DeadLetterDone",
    "DeadMessage",
    "DeadTask",
    "Delivery",
    "DeliveryDone",
    "DoorDetail",
    "DoorPut",
    "DoorRequest",
    "DoorSecret",
    "DoorTested",
    "DryRun",
    "Ended",
    "Erasure",
    "Event",
    "EventDelivery",
    "EventSummary",
    "Extended",
    "FilterVerdict",
    "ForeignTopic",
    "Forgotten",
    "HeldRequest",
    "Hold",
    "HoldDetail",
    "Hour",
    "Incident",
    "IncidentDetail",
    "Job",
    "JobCallbacks",
    "JobKind",
    "JobRule",
    "Key",
    "KeyCreated",
    "Kind",
    "Live",
    "Message",
    "Minute",
    "Move",
    "Numbers",
    "OwnReplay",
    "Partition",
    "PassedOver",
    "Paused",
    "Probe",
    "Progress",
    "Pulled",
    "PulledEvent",
    "Quantiles",
    "Queue",
    "QueueCounts",
    "Receipt",
    "Received",
    "Recover",
    "Refusal",
    "RefusalDetail",
    "Replay",
    "Request",
    "Reset",
    "Schedule",
    "SchemaVersion",
    "Scheme",
    "Service",
    "ServiceCounts",
    "ServiceRequest",
    "Settled",
    "SettledRefusal",
    "SigningKey",
    "SigningKeyMade",
    "Sink",
    "SinkCounts",
    "SinkForecast",
    "Source",
    "State",
    "Statistics",
    "StatsPoint",
    "Step",
    "Submitted",
    "Subscription",
    "SubscriptionCreated",
    "SubscriptionDetail",
    "SubscriptionStats",
    "Task",
    "TaskCounts",
    "TestSent",
    "Timeline",
    "Topic",
    "TopicSchema",
    "TopicSettings",
    "TopicStats",
    "Trail",
    "Undelivered",
    "Upstream",
    "UpstreamIn",
    "Verb",
    "WorkStats",
]


@dataclass(frozen=True, kw_only=True)
class Archived(Model):
    """A message that was accepted."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "claimed_at", "accepted_at"})
    id: str
    created_at: datetime
    claimed_at: datetime
    accepted_at: datetime
    attempts: int
    receiver: str | None
    priority: int
    type: str | None
    key: str | None
    content_type: str | None
    payload: str | None
    payload_base64: str | None


@dataclass(frozen=True, kw_only=True)
class Attempt(Model):
    """One attempt."""

    moments: ClassVar[frozenset[str]] = frozenset({"started_at"})
    number: int
    started_at: datetime
    trigger: str
    outcome: str
    decision: str
    status: int | None
    detail: str | None
    address: str | None
    connect_seconds: float | None
    first_byte_seconds: float | None
    total_seconds: float
    worker: str
    response_headers: Mapping[str, Any] | None
    response_body: str | None


@dataclass(frozen=True, kw_only=True)
class Audit(Model):
    """One action."""

    moments: ClassVar[frozenset[str]] = frozenset({"at"})
    at: datetime
    actor: str
    role: str | None
    action: str
    subject: str
    reason: str | None
    records: int


@dataclass(frozen=True, kw_only=True)
class CarriedSink(Model):
    """A sink, and what waits for it."""

    moments: ClassVar[frozenset[str]] = frozenset({"paused_at", "oldest_at"})
    sink: str
    configured: bool
    paused: bool
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None
    waiting: int | None
    held: int | None
    oldest_at: datetime | None
    leader: str | None
    term: int | None


@dataclass(frozen=True, kw_only=True)
class Chosen(Model):
    """The ids that existed."""

    ids: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ClaimedJob(Model):
    """The part of a job that a worker needs."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "run_until"})
    id: str
    kind: str
    args: Any
    key: str | None
    attempts_max: int
    created_at: datetime
    run_until: datetime
    resumed: Any


@dataclass(frozen=True, kw_only=True)
class Claimed(Model):
    """A job that a worker has claimed."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"job": ClaimedJob}
    moments: ClassVar[frozenset[str]] = frozenset({"leased_until"})
    receipt: str
    attempts: int
    leased_until: datetime
    job: ClaimedJob


@dataclass(frozen=True, kw_only=True)
class Consumer(Model):
    """A consumer of copies."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "leased_until"})
    name: str
    created_at: datetime
    leased_until: datetime | None


@dataclass(frozen=True, kw_only=True)
class DeadLetter(Model):
    """One delivery, or one broker's record, that was given up."""

    moments: ClassVar[frozenset[str]] = frozenset({"died_at"})
    id: str
    sink: str
    event_id: str
    topic: str | None
    key: str | None
    subscription_id: str | None
    callback: str | None
    kind: str
    attempts: int
    last_status: int | None
    last_outcome: str | None
    detail: str | None
    reason: str
    incident_id: str | None
    died_at: datetime


@dataclass(frozen=True, kw_only=True)
class DeadLetterDone(Model):
    """The action and its dead letter."""

    id: str
    done: str


@dataclass(frozen=True, kw_only=True)
class DeadMessage(Model):
    """A message that was given up."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "died_at"})
    id: str
    created_at: datetime
    died_at: datetime
    reason: str
    attempts: int
    content_type: str | None
    type: str | None
    key: str | None
    payload: str | None
    payload_base64: str | None


@dataclass(frozen=True, kw_only=True)
class DeadTask(Model):
    """A task that was given up."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "died_at"})
    number: int
    id: str
    kind: str
    description: str | None
    reason: str
    attempts: int
    worker: str | None
    created_at: datetime
    died_at: datetime


@dataclass(frozen=True, kw_only=True)
class Delivery(Model):
    """One event for one subscription."""

    moments: ClassVar[frozenset[str]] = frozenset({"next_attempt_at", "at"})
    id: str
    event_id: str
    subscription_id: str
    callback: str
    state: str
    reason: str
    blocked_by: str | None
    attempts: int
    last_outcome: str | None
    last_status: int | None
    last_seconds: float | None
    next_attempt_at: datetime | None
    at: datetime
    detail: str | None


@dataclass(frozen=True, kw_only=True)
class DeliveryDone(Model):
    """The action."""

    id: str
    done: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Scheme(Model):
    """How the sender signs."""

    kind: str
    header: str
    separator: str
    prefix: str
    algorithm: str
    encoding: str
    signed: str
    id_header: str | None
    timestamp_header: str | None
    timestamp_item: str | None
    window_seconds: int
    key_form: str


@dataclass(frozen=True, kw_only=True)
class DoorSecret(Model):
    """A secret that is valid now; its text is not shown."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "expires_at"})
    number: int
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class DoorRequest(Model):
    """A request at a door."""

    moments: ClassVar[frozenset[str]] = frozenset({"arrived_at"})
    arrived_at: datetime
    address: str
    bytes: int
    delivery_id: str | None
    event_id: str | None
    topic: str | None
    reason: str | None
    detail: str | None
    body: str | None


@dataclass(frozen=True, kw_only=True)
class DoorDetail(Model):
    """An inbound source with its last requests, newest first."""

    nested: ClassVar[Mapping[str, type[Model]]] = {
        "scheme": Scheme,
        "secrets": DoorSecret,
        "accepted": DoorRequest,
        "refused": DoorRequest,
    }
    moments: ClassVar[frozenset[str]] = frozenset({"changed_at"})
    source: str
    preset: str
    url: str
    topic: str
    id: Sequence[str]
    type: Sequence[str]
    key: str | None
    headers: Sequence[str]
    scheme: Scheme
    remember_seconds: int
    rate_per_minute: int | None
    secrets: Sequence[DoorSecret]
    changed_at: datetime
    accepted: Sequence[DoorRequest]
    refused: Sequence[DoorRequest]


@dataclass(frozen=True, kw_only=True)
class DoorPut(Model):
    """An inbound source, with a secret that was made for it."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"scheme": Scheme, "secrets": DoorSecret}
    moments: ClassVar[frozenset[str]] = frozenset({"changed_at"})
    source: str
    preset: str
    url: str
    topic: str
    id: Sequence[str]
    type: Sequence[str]
    key: str | None
    headers: Sequence[str]
    scheme: Scheme
    remember_seconds: int
    rate_per_minute: int | None
    secrets: Sequence[DoorSecret]
    changed_at: datetime
    secret: str | None = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class DoorTested(Model):
    """A signed example of this sender, and the event that it makes."""

    source: str
    headers: Mapping[str, Any]
    body: str
    topic: str
    key: str | None
    delivery_id: str | None
    event_headers: Mapping[str, Any]
    event_id: str | None


@dataclass(frozen=True, kw_only=True)
class DryRun(Model):
    """The result of a dry run."""

    dry_run: bool
    records: int
    erased: int
    more: bool
    seconds_min: float | None
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, kw_only=True)
class Ended(Model):
    """Ended jobs of a kind, by the person or worker that did them."""

    kind: str
    state: str
    performer: str | None
    jobs: int
    wait_seconds: float | None
    run_seconds: float | None
    total_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Erasure(Model):
    """The counts of one step."""

    dry_run: bool
    examined: int
    unread: int | None
    events: int
    erased_before: int
    unknown: int
    unsent: int
    deliveries: int
    jobs: int
    attempts: int
    archived_jobs: int
    not_reached: Sequence[str]
    next_after: str | None


@dataclass(frozen=True, kw_only=True)
class Sink(Model):
    """The state of an event for one sink."""

    moments: ClassVar[frozenset[str]] = frozenset({"next_attempt_at"})
    sink: str
    state: str
    reason: str
    blocked_by: str | None
    next_attempt_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class EventDelivery(Model):
    """The state of an event for one subscription."""

    moments: ClassVar[frozenset[str]] = frozenset({"next_attempt_at"})
    id: str
    subscription_id: str
    callback: str
    state: str
    reason: str
    blocked_by: str | None
    attempts: int
    last_outcome: str | None
    last_status: int | None
    next_attempt_at: datetime | None
    detail: str | None


@dataclass(frozen=True, kw_only=True)
class Event(Model):
    """A stored event."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"sinks": Sink, "deliveries": EventDelivery}
    moments: ClassVar[frozenset[str]] = frozenset({"accepted_at", "erased_at", "next_attempt_at"})
    id: str
    topic: str
    key: str | None
    sequence: int | None
    content_type: str | None
    headers: Mapping[str, Any]
    accepted_at: datetime
    erased_at: datetime | None
    payload: str | None
    payload_base64: str | None
    data: Any
    state: str
    reason: str
    blocked_by: str | None
    next_attempt_at: datetime | None
    sinks: Sequence[Sink]
    deliveries: Sequence[EventDelivery]
    summary: str


@dataclass(frozen=True, kw_only=True)
class EventSummary(Model):
    """A stored event without its content."""

    moments: ClassVar[frozenset[str]] = frozenset({"accepted_at", "erased_at"})
    id: str
    topic: str
    key: str | None
    sequence: int | None
    content_type: str | None
    accepted_at: datetime
    bytes: int
    erased_at: datetime | None
    outcome: str


@dataclass(frozen=True, kw_only=True)
class Extended(Model):
    """The new end of the lease; it never exceeds the run limit."""

    moments: ClassVar[frozenset[str]] = frozenset({"leased_until"})
    is_cancelled: bool
    leased_until: datetime


@dataclass(frozen=True, kw_only=True)
class FilterVerdict(Model):
    """Whether it passes, and the data that the filter read."""

    matches: bool
    document: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ForeignTopic(Model):
    """The state of a foreign topic."""

    moments: ClassVar[frozenset[str]] = frozenset({"due_at", "fetched_at", "changed_at", "created_at"})
    topic: str
    url: str
    self_url: str | None
    hub_url: str | None
    feed_diff: bool
    always_deliver: bool
    sinks: Sequence[str] | None
    pings: int
    pings_fetched: int
    due_at: datetime | None
    failures: int
    last_status: int | None
    last_error: str | None
    fetched_at: datetime | None
    changed_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Forgotten(Model):
    """How many sources were forgotten."""

    forgotten: int


@dataclass(frozen=True, kw_only=True)
class ServiceRequest(Model):
    """The request as it was made."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at"})
    id: str
    service: str
    created_at: datetime
    content_type: str | None
    payload: str | None
    payload_base64: str | None


@dataclass(frozen=True, kw_only=True)
class HeldRequest(Model):
    """A request that the worker holds until its lease ends."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"request": ServiceRequest}
    moments: ClassVar[frozenset[str]] = frozenset({"leased_until"})
    receipt: str
    attempts: int
    leased_until: datetime
    request: ServiceRequest


@dataclass(frozen=True, kw_only=True)
class Hold(Model):
    """A key or topic that waits, and the reason."""

    moments: ClassVar[frozenset[str]] = frozenset({"since", "next_attempt_at"})
    id: str
    sink: str
    topic: str
    scope: str
    key: str | None
    reason: str
    detail: str
    records: int
    attempts: int
    since: datetime
    next_attempt_at: datetime


@dataclass(frozen=True, kw_only=True)
class HoldDetail(Model):
    """A hold with the first of its waiting events."""

    moments: ClassVar[frozenset[str]] = frozenset({"since", "next_attempt_at"})
    id: str
    sink: str
    topic: str
    scope: str
    key: str | None
    reason: str
    detail: str
    records: int
    attempts: int
    since: datetime
    next_attempt_at: datetime
    oldest: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Hour(Model):
    """The events of an hour."""

    moments: ClassVar[frozenset[str]] = frozenset({"at"})
    at: datetime
    accepted: int


@dataclass(frozen=True, kw_only=True)
class Incident(Model):
    """A cause of failures."""

    moments: ClassVar[frozenset[str]] = frozenset({"first_at", "last_at", "changed_at"})
    id: str
    kind: str
    state: str
    active: bool
    sink: str
    subscription_id: str | None
    topic: str | None
    callback: str | None
    outcome: str
    status: int | None
    excerpt: str | None
    waiting: int
    dead: int
    more: bool
    failures: int
    failures_5_minutes: int
    failures_hour_before: int
    first_at: datetime
    last_at: datetime
    changed_at: datetime
    actor: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Minute(Model):
    """The failures of one minute."""

    moments: ClassVar[frozenset[str]] = frozenset({"at"})
    at: datetime
    failures: int


@dataclass(frozen=True, kw_only=True)
class IncidentDetail(Model):
    """A cause of failures with its last 65 minutes."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"minutes": Minute}
    moments: ClassVar[frozenset[str]] = frozenset({"first_at", "last_at", "changed_at"})
    id: str
    kind: str
    state: str
    active: bool
    sink: str
    subscription_id: str | None
    topic: str | None
    callback: str | None
    outcome: str
    status: int | None
    excerpt: str | None
    waiting: int
    dead: int
    more: bool
    failures: int
    failures_5_minutes: int
    failures_hour_before: int
    first_at: datetime
    last_at: datetime
    changed_at: datetime
    actor: str | None
    reason: str | None
    minutes: Sequence[Minute]


@dataclass(frozen=True, kw_only=True)
class Trail(Model):
    """An act on the job, with its actor."""

    moments: ClassVar[frozenset[str]] = frozenset({"at"})
    at: datetime
    actor: str
    verb: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Job(Model):
    """A live or ended job."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"trail": Trail}
    moments: ClassVar[frozenset[str]] = frozenset(
        {"due_at", "due_local", "deadline_at", "leased_until", "created_at", "claimed_at", "ended_at"}
    )
    id: str
    kind: str
    queue: str
    state: str
    for_people: bool
    args: Any
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
    leased_until: datetime | None
    assignee: str | None
    performer: str | None
    number: int
    progress_done: int | None
    progress_total: int | None
    progress_note: str | None
    is_cancelled: bool
    result: Any
    errors: Any
    created_by: str | None
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None
    trail: Sequence[Trail] | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class JobCallbacks(Model):
    """Kinds of follow-up jobs."""

    on_status: str | None = field(default=None)
    on_complete: str | None = field(default=None)
    on_retry: str | None = field(default=None)
    on_fail: str | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class JobKind(Model):
    """The settings of a kind."""

    automation: str | None = field(default=None)
    machine_percent: int | None = field(default=None)
    machine_rule: Mapping[str, Any] | None = field(default=None)
    needs_review: bool | None = field(default=None)
    reviewer_differs: bool | None = field(default=None)
    escalate_to: str | None = field(default=None)
    attempts_max: int | None = field(default=None)
    run_seconds: float | None = field(default=None)
    deadline_seconds: float | None = field(default=None)
    lease_seconds: float | None = field(default=None)
    backoff_seconds_min: float | None = field(default=None)
    backoff_seconds_max: float | None = field(default=None)
    doublings_max: int | None = field(default=None)
    ageing_seconds: float | None = field(default=None)
    running_max: int | None = field(default=None)
    key_running_max: int | None = field(default=None)
    key_rate_per_second: float | None = field(default=None)
    key_burst: int | None = field(default=None)
    events: Sequence[str] | None = field(default=None)
    retention_days: int | None = field(default=None)
    kind: str
    is_paused: bool


@dataclass(frozen=True, kw_only=True)
class JobRule(Model):
    """The job that each event of a topic enqueues."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"callbacks": JobCallbacks}
    kind: str
    queue: str | None = field(default=None)
    priority: int | None = field(default=None)
    delay_seconds: float | None = field(default=None)
    attempts_max: int | None = field(default=None)
    run_seconds: float | None = field(default=None)
    deadline_seconds: float | None = field(default=None)
    assignee: str | None = field(default=None)
    callbacks: JobCallbacks | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class Key(Model):
    """A key without its text."""

    moments: ClassVar[frozenset[str]] = frozenset({"expires_at", "revoked_at", "created_at"})
    id: str
    name: str
    scopes: Sequence[str]
    topics: Sequence[str] | None
    queues: Sequence[str] | None
    kinds: Sequence[str] | None
    services: Sequence[str] | None
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class KeyCreated(Model):
    """A new key with its text, which is shown only now."""

    moments: ClassVar[frozenset[str]] = frozenset({"expires_at", "revoked_at", "created_at"})
    id: str
    name: str
    scopes: Sequence[str]
    topics: Sequence[str] | None
    queues: Sequence[str] | None
    kinds: Sequence[str] | None
    services: Sequence[str] | None
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    key: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Kind(Model):
    """The settings of a kind."""

    on_crash: str | None = field(default=None)
    compensation_kind: str | None = field(default=None)
    notify: str | None = field(default=None)
    lookup_seconds: float | None = field(default=None)
    giveup_seconds: float | None = field(default=None)
    cleanup_seconds: float | None = field(default=None)
    crash_seconds: float | None = field(default=None)
    attempts_max: int | None = field(default=None)
    age_seconds_max: float | None = field(default=None)
    backoff_seconds_min: float | None = field(default=None)
    backoff_seconds_max: float | None = field(default=None)
    doublings_max: int | None = field(default=None)
    keeps_record: bool | None = field(default=None)
    is_unique: bool | None = field(default=None)
    kind: str


@dataclass(frozen=True, kw_only=True)
class Live(Model):
    """Live jobs of a kind in one state."""

    moments: ClassVar[frozenset[str]] = frozenset({"oldest_at"})
    kind: str
    state: str
    jobs: int
    oldest_at: datetime


@dataclass(frozen=True, kw_only=True)
class Message(Model):
    """The message as submitted."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at"})
    id: str
    created_at: datetime
    content_type: str | None
    headers: Mapping[str, Any]
    type: str | None
    key: str | None
    priority: int
    payload: str | None
    payload_base64: str | None


@dataclass(frozen=True, kw_only=True)
class Move(Model):
    """The move of a partition."""

    partition: int
    next_offset: int
    to_offset: int


@dataclass(frozen=True, kw_only=True)
class Numbers(Model):
    """The numbers that existed."""

    numbers: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class OwnReplay(Model):
    """The replay that was begun."""

    id: str


@dataclass(frozen=True, kw_only=True)
class Partition(Model):
    """How far a partition is taken."""

    moments: ClassVar[frozenset[str]] = frozenset({"last_record_at"})
    partition: int
    next_offset: int
    end_offset: int | None
    lag: int | None
    age_seconds: float | None
    rate: float | None
    taken: int
    last_record_at: datetime | None
    reader: str | None
    trouble: str | None


@dataclass(frozen=True, kw_only=True)
class PassedOver(Model):
    """A Kafka topic that fits a pattern, and that the pattern does not read."""

    topic: str
    kind: str
    reason: str
    is_unread: bool


@dataclass(frozen=True, kw_only=True)
class Paused(Model):
    """Whether a source is paused."""

    source: str
    paused: bool


@dataclass(frozen=True, kw_only=True)
class Probe(Model):
    """The answer."""

    moments: ClassVar[frozenset[str]] = frozenset({"started_at"})
    delivery_id: str
    edited: bool
    signed: bool
    delivered: bool
    outcome: str
    status: int | None
    detail: str | None
    started_at: datetime
    total_seconds: float
    response_headers: Mapping[str, Any] | None
    response_body: str | None


@dataclass(frozen=True, kw_only=True)
class Progress(Model):
    """Whether the job must stop."""

    is_cancelled: bool


@dataclass(frozen=True, kw_only=True)
class PulledEvent(Model):
    """The event as published."""

    moments: ClassVar[frozenset[str]] = frozenset({"accepted_at"})
    id: str
    topic: str
    key: str | None
    sequence: int | None
    accepted_at: datetime
    content_type: str | None
    headers: Mapping[str, Any]
    payload: str | None
    payload_base64: str | None


@dataclass(frozen=True, kw_only=True)
class Pulled(Model):
    """A delivery that the client holds until its lease ends."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"event": PulledEvent}
    moments: ClassVar[frozenset[str]] = frozenset({"leased_until"})
    receipt: str
    attempts: int
    leased_until: datetime
    event: PulledEvent


@dataclass(frozen=True, kw_only=True)
class Quantiles(Model):
    """Seconds that 50, 95 and 99 of 100 did not exceed; null where nothing was timed."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, kw_only=True)
class QueueCounts(Model):
    """The contents of a queue, counted."""

    moments: ClassVar[frozenset[str]] = frozenset({"oldest_at"})
    available: int
    claimed: int
    delayed: int
    dead: int
    oldest_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Queue(Model):
    """A queue."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"counts": QueueCounts}
    moments: ClassVar[frozenset[str]] = frozenset({"expires_at", "created_at"})
    moves: bool | None = field(default=None)
    copies: bool | None = field(default=None)
    history: bool | None = field(default=None)
    lease_seconds: float | None = field(default=None)
    deliveries_max: int | None = field(default=None)
    retention_days: int | None = field(default=None)
    queue: str
    paused: bool
    graduated: bool
    owner: str | None
    expires_at: datetime | None
    created_at: datetime
    counts: QueueCounts


@dataclass(frozen=True, kw_only=True)
class Receipt(Model):
    """The result of one receipt."""

    receipt: str
    state: str


@dataclass(frozen=True, kw_only=True)
class Received(Model):
    """A message that the receiver holds until its lease ends."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"message": Message}
    moments: ClassVar[frozenset[str]] = frozenset({"leased_until"})
    receipt: str
    attempts: int
    leased_until: datetime
    message: Message


@dataclass(frozen=True, kw_only=True)
class Recover(Model):
    """What was done, or what would be done."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"probe": Probe}
    incident_id: str
    dry_run: bool
    recovered: bool
    reason: str
    subscription_id: str
    enabled: bool
    probe: Probe | None
    replay_id: str | None
    missed_replay_id: str | None
    records: int | None
    missed: int | None
    more: bool | None
    missed_more: bool | None
    seconds_min: float | None


@dataclass(frozen=True, kw_only=True)
class Refusal(Model):
    """A record of Kafka or a message of AMQP that cannot be an event."""

    moments: ClassVar[frozenset[str]] = frozenset({"record_at", "refused_at"})
    id: str
    kind: str
    source: str
    partition: int | None
    offset: int | None
    reason: str
    detail: str
    key: str | None
    bytes: int
    record_at: datetime | None
    refused_at: datetime
    holds: bool


@dataclass(frozen=True, kw_only=True)
class RefusalDetail(Model):
    """The same with the beginning of its value."""

    moments: ClassVar[frozenset[str]] = frozenset({"record_at", "refused_at"})
    id: str
    kind: str
    source: str
    partition: int | None
    offset: int | None
    reason: str
    detail: str
    key: str | None
    bytes: int
    record_at: datetime | None
    refused_at: datetime
    holds: bool
    value: str | None


@dataclass(frozen=True, kw_only=True)
class Replay(Model):
    """A replay and its progress."""

    moments: ClassVar[frozenset[str]] = frozenset({"since", "until", "created_at", "updated_at"})
    id: str
    state: str
    source: str
    act: str
    job_kind: str | None
    job_state: str | None
    incident_id: str | None
    subscription_id: str | None
    topic: str | None
    kinds: Sequence[str] | None
    statuses: Sequence[int] | None
    since: datetime | None
    until: datetime | None
    rate_per_second: int | None
    actor: str
    reason: str | None
    created_at: datetime
    updated_at: datetime
    progress: float
    examined: int
    replayed: int
    erased: int
    seconds_left: float | None
    is_held: bool | None
    why: str | None


@dataclass(frozen=True, kw_only=True)
class Request(Model):
    """A request without its contents."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "expires_at", "answered_at"})
    id: str
    service: str
    state: str
    via: str
    caller: str | None
    worker: str | None
    attempts: int
    created_at: datetime
    expires_at: datetime | None
    answered_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, kw_only=True)
class Reset(Model):
    """The moves, and whether they are made."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"moves": Move}
    dry_run: bool
    moves: Sequence[Move]


@dataclass(frozen=True, kw_only=True)
class Schedule(Model):
    """A schedule."""

    moments: ClassVar[frozenset[str]] = frozenset({"next_at", "last_at"})
    name: str
    cron: str
    zone: str
    missed: str
    job: Mapping[str, Any]
    is_paused: bool
    next_at: datetime
    last_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class SchemaVersion(Model):
    """A version in the list."""

    moments: ClassVar[frozenset[str]] = frozenset({"made_at"})
    version: int
    made_at: datetime


@dataclass(frozen=True, kw_only=True)
class ServiceCounts(Model):
    """The requests of a service, counted."""

    moments: ClassVar[frozenset[str]] = frozenset({"oldest_at"})
    waiting: int
    leased: int
    oldest_at: datetime | None
    callbacks: int
    has_workers: bool


@dataclass(frozen=True, kw_only=True)
class Service(Model):
    """A service."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"counts": ServiceCounts}
    moments: ClassVar[frozenset[str]] = frozenset({"created_at"})
    lease_seconds: float | None = field(default=None)
    tries_max: int | None = field(default=None)
    idempotent: bool | None = field(default=None)
    expiry_seconds: float | None = field(default=None)
    retention_seconds: float | None = field(default=None)
    concurrency_max: int | None = field(default=None)
    without_workers: str | None = field(default=None)
    name: str
    disabled: bool
    created_at: datetime
    counts: ServiceCounts


@dataclass(frozen=True, kw_only=True)
class Settled(Model):
    """The result of one receipt."""

    receipt: str
    state: str


@dataclass(frozen=True, kw_only=True)
class SettledRefusal(Model):
    """The events that a refused record has become; none if it was skipped."""

    id: str
    events: Sequence[str]
    released: int
    held_by: str | None


@dataclass(frozen=True, kw_only=True)
class SigningKey(Model):
    """A key that signs."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "expires_at"})
    number: int
    type: str
    public_key: str | None
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class SigningKeyMade(Model):
    """A new key with its secret, which is shown only now."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "expires_at"})
    number: int
    type: str
    public_key: str | None
    created_at: datetime
    expires_at: datetime | None
    secret: str | None = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class SinkCounts(Model):
    """What a sink was owed, and what it got."""

    sink: str
    owed: int
    sent: int
    dead: int


@dataclass(frozen=True, kw_only=True)
class SinkForecast(Model):
    """What a pause would leave waiting."""

    sink: str
    events_per_hour: float
    bytes_per_hour: float
    waiting: int | None
    event_days: int | None
    source_backlog_max: int | None


@dataclass(frozen=True, kw_only=True)
class Source(Model):
    """A Kafka topic that is read, a pattern of such topics, or an inbound source, which takes webhooks of others."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"partitions": Partition, "passed_over": PassedOver}
    moments: ClassVar[frozenset[str]] = frozenset({"accepted_at", "refused_at"})
    source: str
    kind: str
    topic: str | None
    paused: bool
    lag: int
    age_seconds: float | None
    rate: float | None
    refused: int
    partitions: Sequence[Partition]
    preset: str | None
    accepted_at: datetime | None
    refused_at: datetime | None
    passed_over: Sequence[PassedOver] | None = field(default=None)
    passed_over_count: int | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class State(Model):
    """The current state of the job."""

    id: str
    state: str
    outcome: str | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class Statistics(Model):
    """Counts of live and ended jobs."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"live": Live, "ended": Ended}
    live: Sequence[Live]
    ended: Sequence[Ended]


@dataclass(frozen=True, kw_only=True)
class StatsPoint(Model):
    """The attempts of one minute, hour or day."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"attempt_seconds": Quantiles, "age_seconds": Quantiles}
    moments: ClassVar[frozenset[str]] = frozenset({"at"})
    at: datetime
    attempts: int
    delivered: int
    attempt_seconds: Quantiles
    age_seconds: Quantiles


@dataclass(frozen=True, kw_only=True)
class Step(Model):
    """One step."""

    moments: ClassVar[frozenset[str]] = frozenset({"at"})
    kind: str
    name: str
    at: datetime | None
    state: str
    reason: str
    subscription_id: str | None
    number: int | None
    status: int | None
    seconds: float | None
    answer: str | None


@dataclass(frozen=True, kw_only=True)
class Submitted(Model):
    """The ids of the stored messages, in the order of the body."""

    queue: str
    ids: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Subscription(Model):
    """A subscription in its present state."""

    moments: ClassVar[frozenset[str]] = frozenset(
        {
            "lease_until",
            "paused_until",
            "breaker_open_until",
            "failing_since",
            "last_success_at",
            "next_attempt_at",
            "created_at",
            "updated_at",
        }
    )
    id: str
    protocol: str
    topic: str
    service: str | None
    kind: str | None
    queue: str | None
    callback: str
    state: str
    state_reason: str | None
    drains: bool
    name: str | None
    description: str | None
    metadata: Mapping[str, Any] | None
    mode: str
    ordered: bool
    retry_schedule_seconds: Sequence[int] | None
    retry_age_seconds_max: int | None
    on_4xx: str
    on_410: str
    on_exhausted: str
    timeout_seconds: float | None
    rate_per_second: float | None
    rate_burst: int | None
    format: str
    batch_max: int | None
    template: str | None
    request_origin: str | None
    header_names: Sequence[str] | None
    lease_until: datetime | None
    paused_until: datetime | None
    breaker_open_until: datetime | None
    health: str
    reason: str
    blocked_by: str | None
    failing_since: datetime | None
    last_success_at: datetime | None
    waiting: int
    next_attempt_at: datetime | None
    filter: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class SubscriptionCreated(Model):
    """A new subscription with its secret, which is shown only now."""

    moments: ClassVar[frozenset[str]] = frozenset(
        {
            "lease_until",
            "paused_until",
            "breaker_open_until",
            "failing_since",
            "last_success_at",
            "next_attempt_at",
            "created_at",
            "updated_at",
        }
    )
    id: str
    protocol: str
    topic: str
    service: str | None
    kind: str | None
    queue: str | None
    callback: str
    state: str
    state_reason: str | None
    drains: bool
    name: str | None
    description: str | None
    metadata: Mapping[str, Any] | None
    mode: str
    ordered: bool
    retry_schedule_seconds: Sequence[int] | None
    retry_age_seconds_max: int | None
    on_4xx: str
    on_410: str
    on_exhausted: str
    timeout_seconds: float | None
    rate_per_second: float | None
    rate_burst: int | None
    format: str
    batch_max: int | None
    template: str | None
    request_origin: str | None
    header_names: Sequence[str] | None
    lease_until: datetime | None
    paused_until: datetime | None
    breaker_open_until: datetime | None
    health: str
    reason: str
    blocked_by: str | None
    failing_since: datetime | None
    last_success_at: datetime | None
    waiting: int
    next_attempt_at: datetime | None
    filter: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    secret: str | None = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class SubscriptionDetail(Model):
    """One subscription with its warnings."""

    moments: ClassVar[frozenset[str]] = frozenset(
        {
            "lease_until",
            "paused_until",
            "breaker_open_until",
            "failing_since",
            "last_success_at",
            "next_attempt_at",
            "created_at",
            "updated_at",
        }
    )
    id: str
    protocol: str
    topic: str
    service: str | None
    kind: str | None
    queue: str | None
    callback: str
    state: str
    state_reason: str | None
    drains: bool
    name: str | None
    description: str | None
    metadata: Mapping[str, Any] | None
    mode: str
    ordered: bool
    retry_schedule_seconds: Sequence[int] | None
    retry_age_seconds_max: int | None
    on_4xx: str
    on_410: str
    on_exhausted: str
    timeout_seconds: float | None
    rate_per_second: float | None
    rate_burst: int | None
    format: str
    batch_max: int | None
    template: str | None
    request_origin: str | None
    header_names: Sequence[str] | None
    lease_until: datetime | None
    paused_until: datetime | None
    breaker_open_until: datetime | None
    health: str
    reason: str
    blocked_by: str | None
    failing_since: datetime | None
    last_success_at: datetime | None
    waiting: int
    next_attempt_at: datetime | None
    filter: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    warnings: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class SubscriptionStats(Model):
    """The attempts of a subscription in a span of time, and what waits now."""

    nested: ClassVar[Mapping[str, type[Model]]] = {
        "attempt_seconds": Quantiles,
        "age_seconds": Quantiles,
        "points": StatsPoint,
    }
    moments: ClassVar[frozenset[str]] = frozenset({"since", "until", "as_of"})
    since: datetime
    until: datetime
    grain: str
    as_of: datetime
    attempts: int
    delivered: int
    failed: int
    success: float | None
    attempts_per_second: float
    attempt_seconds: Quantiles
    age_seconds: Quantiles
    waiting: int
    oldest_seconds: float | None
    drained_seconds: float | None
    event_days: int | None
    points: Sequence[StatsPoint]


@dataclass(frozen=True, kw_only=True)
class Task(Model):
    """A task that is not finished."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "start_time", "due_at", "leased_until"})
    id: str
    kind: str
    state: str
    description: str | None
    created_at: datetime
    start_time: datetime | None
    due_at: datetime | None
    attempts: int
    worker: str | None
    leased_until: datetime | None
    last_error: str | None


@dataclass(frozen=True, kw_only=True)
class TaskCounts(Model):
    """Numbers of tasks."""

    waiting: int
    started: int
    delayed: int
    dead: int


@dataclass(frozen=True, kw_only=True)
class TestSent(Model):
    """The test event and its delivery."""

    event_id: str
    delivery_id: str


@dataclass(frozen=True, kw_only=True)
class Timeline(Model):
    """The steps of an event, each behind what it follows from."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"steps": Step}
    event_id: str
    topic: str
    state: str
    summary: str
    steps: Sequence[Step]


@dataclass(frozen=True, kw_only=True)
class Topic(Model):
    """A topic in the list."""

    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "last_accepted_at"})
    topic: str
    sinks: Sequence[str] | None
    order: str
    created_at: datetime
    last_event_id: str | None
    last_accepted_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class TopicSchema(Model):
    """A version of a topic's schema."""

    moments: ClassVar[frozenset[str]] = frozenset({"made_at"})
    schema: Mapping[str, Any]
    topic: str
    version: int
    made_at: datetime
    ignored: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class TopicSettings(Model):
    """The present settings."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"job": JobRule}
    moments: ClassVar[frozenset[str]] = frozenset({"created_at", "updated_at"})
    sinks: Sequence[str] | None = field(default=None)
    order: str | None = field(default=None)
    kafka_topic: str | None = field(default=None)
    amqp_exchange: str | None = field(default=None)
    amqp_routing_key: str | None = field(default=None)
    on_refused: str | None = field(default=None)
    validator_url: str | None = field(default=None)
    moved_to: str | None = field(default=None)
    retention_days: int | None = field(default=None)
    job: JobRule | None = field(default=None)
    topic: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class TopicStats(Model):
    """The events of a topic in whole hours."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"sinks": SinkCounts, "points": Hour}
    moments: ClassVar[frozenset[str]] = frozenset({"since", "until", "as_of"})
    since: datetime
    until: datetime
    as_of: datetime
    accepted: int
    accepted_per_second: float
    sinks: Sequence[SinkCounts]
    points: Sequence[Hour]


@dataclass(frozen=True, kw_only=True)
class Undelivered(Model):
    """An event that has not reached a subscriber."""

    moments: ClassVar[frozenset[str]] = frozenset({"next_attempt_at"})
    event_id: str
    subscription_id: str | None
    delivery_id: str | None
    callback: str | None
    state: str
    reason: str
    blocked_by: str | None
    attempts: int
    last_outcome: str | None
    last_status: int | None
    next_attempt_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Upstream(Model):
    """The state of the subscription at the other hub."""

    moments: ClassVar[frozenset[str]] = frozenset({"lease_until", "due_at", "received_at", "created_at"})
    topic: str
    url: str
    hub_url: str | None
    self_url: str | None
    sinks: Sequence[str] | None
    state: str
    reason: str | None
    lease_until: datetime | None
    due_at: datetime | None
    failures: int
    given_hub_url: str | None
    given_topic_url: str | None
    received_at: datetime | None
    is_quiet: bool
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class UpstreamIn(Model):
    """A topic of another publisher, to which this hub subscribes."""

    url: str
    sinks: Sequence[str] | None = field(default=None)
    hub_url: str | None = field(default=None)
    topic_url: str | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class Verb(Model):
    """Number of records that were given up."""

    id: str
    dead_letters: int


@dataclass(frozen=True, kw_only=True)
class WorkStats(Model):
    """What ended in a span of time, and what waits now."""

    nested: ClassVar[Mapping[str, type[Model]]] = {"run_seconds": Quantiles, "age_seconds": Quantiles}
    moments: ClassVar[frozenset[str]] = frozenset({"since", "until"})
    since: datetime
    until: datetime
    kept: bool
    ended: int | None
    done: int | None
    failed: int | None
    success: float | None
    ended_per_second: float | None
    more: bool
    run_seconds: Quantiles
    age_seconds: Quantiles
    waiting: int
    oldest_seconds: float | None
