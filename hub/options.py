"""The operator's settings of the hub, of subscribing and of publishing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from egress.guard import GuardPolicy
from hub.form import FormDialect

__all__ = ["ForeignTopics", "HubOptions", "PublishOptions", "SecretOverHttp"]

SecretOverHttp = Literal["allow", "warn", "reject"]
ForeignTopics = Literal["off", "registered", "any"]


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Settings of subscribing.

    Attributes:
        public_url: the URL of this hub for others, without trailing slash; topic URLs and the hub's own URL begin with
            it.
        url_policy: which callbacks may be named; the outbound client checks their addresses again.
        lease_seconds_min: shorter requested leases are raised to this.
        lease_seconds_default: the lease of a request that names none.
        lease_seconds_max: longer requested leases are lowered to this.
        verification_deadline_seconds: for one verification GET, all of it.
        verification_retries: pauses in seconds before asking again when no HTTP answer came; empty turns that off.
        sweep_seconds: pause between two searches for ended leases, without a notification.
        verification_slots: GETs in flight in this process; half of them for hosts without an active subscription.
        first_connect_seconds: for the connection of a first try, where another one may follow.
        verifications_per_minute_host: requests accepted per callback host, all tenants together.
        verifications_burst_host: as many at once; 0: as many as in a minute.
        verifications_per_minute_requester: the same per network that asks.
        verifications_burst_requester: as many at once; 0: as many as in a minute.
        verifications_per_minute_tenant: the same per tenant; also the burst.
        pending_requester_max: requests of one network that may wait at once; 0: any number.
        subscriptions_host_max: subscriptions of one callback host; 0: any number.
        subscriptions_requester_max: subscriptions that one network asked for; 0: any number.
        lenient_challenge: white space after the echoed challenge is forgiven.
        secret_over_http: the treatment of a ``hub.secret`` that was not sent by https.
        tell_lease_end: callbacks get ``hub.mode=denied`` when their lease has ended.
        foreign_topics: topics of other publishers: refused, those that were registered, or any.
        fetch_bytes_max: largest content that is fetched.
        fetch_deadline_seconds: for one fetch, redirects included.
        fetch_slots: fetches in flight in this process, and as many requests to other hubs.
        fetch_pause_seconds: least time between two fetches of a topic, however often it is pinged.
        dialect: how PubSubHubbub 0.3 is supported.
        async_retries: the pauses of a 0.3 verification; it is tried again also after any answer but 404.
        sync_seconds: how long a 0.3 request waits for its own verification.
        sha1_hosts: callback hosts whose deliveries are always signed with sha1.
        strict_topic: a foreign topic can be subscribed to only by the URL that it advertises as its own.
        publish_secret: signs ``hub.content``; empty: content is not taken from forms.
        message_id_header: the header with the id of a RabbitHub message; empty: none.
        correlation_id_header: the header of a RabbitHub publish that is returned and forwarded; empty: none.
        rabbithub_mirror: the default of an exchange: AMQP gets its messages too.
        shared_queues: virtual host and name of each queue of RabbitHub that is a queue of AMQP's, too.
        moved_to: another hub's URL, to which every subscribe and unsubscribe is sent by a 307; empty: served here.
    """

    public_url: str
    url_policy: GuardPolicy
    lease_seconds_min: int = 60
    lease_seconds_default: int = 864_000
    lease_seconds_max: int = 2_592_000
    verification_deadline_seconds: float = 10.0
    verification_retries: tuple[float, ...] = (5.0, 25.0)
    sweep_seconds: float = 5.0
    verification_slots: int = 64
    first_connect_seconds: float = 2.0
    verifications_per_minute_host: int = 300
    verifications_burst_host: int = 0
    verifications_per_minute_requester: int = 300
    verifications_burst_requester: int = 0
    verifications_per_minute_tenant: int = 3_000
    pending_requester_max: int = 256
    subscriptions_host_max: int = 1_000
    subscriptions_requester_max: int = 1_000
    lenient_challenge: bool = False
    secret_over_http: SecretOverHttp = "warn"  # noqa: S105 - a policy, not a password
    tell_lease_end: bool = False
    foreign_topics: ForeignTopics = "off"
    fetch_bytes_max: int = 1_048_576
    fetch_deadline_seconds: float = 30.0
    fetch_slots: int = 16
    fetch_pause_seconds: float = 1.0
    dialect: FormDialect = FormDialect.TOLERANT
    async_retries: tuple[float, ...] = (5.0, 60.0, 600.0, 3600.0, 17_000.0)
    sync_seconds: float = 12.0
    sha1_hosts: tuple[str, ...] = ()
    strict_topic: bool = False
    publish_secret: bytes = field(default=b"", repr=False)
    message_id_header: str = ""
    correlation_id_header: str = ""
    rabbithub_mirror: bool = False
    shared_queues: frozenset[tuple[str, str]] = frozenset()
    moved_to: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.lease_seconds_min <= self.lease_seconds_default <= self.lease_seconds_max:
            raise ValueError("1 <= lease_seconds_min <= lease_seconds_default <= lease_seconds_max does not hold")
        rates = (
            self.verifications_per_minute_host,
            self.verifications_per_minute_requester,
            self.verifications_per_minute_tenant,
        )
        if min(self.verification_slots, *rates) < 1:
            raise ValueError("verification_slots and verifications_per_minute_* must be at least 1")
        if self.verification_deadline_seconds <= 0 or len(self.verification_retries) > 10:
            raise ValueError("verification_deadline_seconds must be above 0, verification_retries at most 10")
        object.__setattr__(self, "public_url", self.public_url.rstrip("/"))

    def lease_seconds(self, asked: int | None) -> int:
        """Return the lease to grant for a requested lease, or for None. It is always
        bounded.
        """
        if asked is None:
            return self.lease_seconds_default
        return min(max(asked, self.lease_seconds_min), self.lease_seconds_max)


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """Bounds of the group commit.

    A commit takes at most ``commit_drafts_max`` drafts and ``commit_bytes_max`` payload bytes; ``writers`` commits run
    at once. At most ``waiting_units_max`` units wait in memory. Units whose key is held elsewhere wait for it
    ``key_lock_seconds`` in a transaction of their own; ``key_waiters`` of those, for different keys, run at once. For
    an idempotency key that is in an open transaction they wait as long, in memory. A publish without an answer of the
    database after ``answer_seconds`` fails.
    """

    writers: int = 2
    commit_drafts_max: int = 512
    commit_bytes_max: int = 4 * 1024 * 1024
    waiting_units_max: int = 10_000
    key_lock_seconds: float = 2.0
    key_waiters: int = 3
    busy_retries: int = 3
    answer_seconds: float = 10.0
