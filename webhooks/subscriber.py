"""Subscriber: the data of a subscription that a worker needs for sending, with its keys opened.

Cached by version. Every change of a subscription raises its version, and the claim returns the present one. A cached
subscriber of another version is read again. So an unsubscribe, a new secret or a new callback counts from the next
claim on (WS-104).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog

from db.pool import Database, Row
from db.secret_box import SecretBox, SecretBoxError
from egress.guard import GuardPolicy
from egress.url import Target, UrlRefused, parse_target
from webhooks.error_policy import ErrorPolicy
from webhooks.retry import RetryPolicy
from webhooks.signature import LIVE_KEYS_MAX, SigningKey, hub_key, parse_key

__all__ = ["Subscriber", "Subscribers", "headers_context", "secret_context"]

_log = structlog.get_logger(__name__)
_CACHED_SECONDS = 30.0
"""The longest time that an expired key may still sign (WH-S18)."""


def secret_context(subscription_id: int, number: int) -> bytes:
    """Return the context of a sealed secret, so that it opens for its own subscription only."""
    return f"subscription:{subscription_id}:{number}".encode()


def headers_context(subscription_id: int) -> bytes:
    """Return the context of a subscription's own headers, as :func:`secret_context`."""
    return f"subscription:{subscription_id}:headers".encode()


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscription, ready to be sent to.

    ``target`` is None when nothing may be sent; then ``refusal`` says why. ``refusal_kind`` is "blocked" for a callback
    that the URL policy refuses, and "internal" for our own fault. ``hub_secret`` is WebSub's, None without one.
    ``headers``, with lower-case names, are sent with every delivery. ``schedule`` and ``age_seconds_max`` None: the
    configured ones. ``batch_max``: how many events one request may carry; ``template``: how a chat shows one.
    ``lease_until`` is monotonic, None without a lease. ``parks``: an exhausted head of a lane makes its key wait.
    """

    id: int
    public_id: str
    version: int
    protocol: str
    target: Target | None
    refusal: str
    refusal_kind: str
    keys: Sequence[SigningKey]
    hub_secret: bytes | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    signature_method: str
    format: str
    batch_max: int
    template: str | None
    request_origin: str | None
    topic_url: str | None
    schedule: Sequence[int] | None
    age_seconds_max: int | None
    on_4xx: str
    on_410: str
    at_most_once: bool
    parks: bool
    timeout_seconds: float | None
    lease_until: float | None
    read_at: float

    @property
    def sends_cloudevents(self) -> bool:
        """Return whether each delivery is a CloudEvent, as the subscriber asked for."""
        return self.format in ("binary", "structured", "batch")

    def policy(
        self, schedule_seconds: Sequence[int], age_seconds_max: float, errors: ErrorPolicy, *, is_in_lane: bool
    ) -> RetryPolicy:
        """Return its retry policy; schedule, age limit and errors are the configured ones."""
        schedule = schedule_seconds if self.schedule is None else self.schedule
        age = age_seconds_max if self.age_seconds_max is None else self.age_seconds_max
        return RetryPolicy(
            () if self.at_most_once else schedule,
            age,
            self.on_4xx,
            self.on_410,
            parks=self.parks and is_in_lane,
            is_415_final=self.sends_cloudevents,
            gives_up=self.protocol == "rabbithub" and not errors.requeues,
        )


class Subscribers:
    """The cache of one worker, bounded."""

    def __init__(self, database: Database, secrets: SecretBox, policy: GuardPolicy, cached_max: int = 50_000) -> None:
        self._database = database
        self._secrets = secrets
        self._policy = policy
        self._cached_max = cached_max
        self._cached: dict[int, Subscriber] = {}

    async def get(self, wanted: Iterable[tuple[int, int]]) -> dict[int, Subscriber]:
        """Return subscribers by id for pairs of (id, version); read those that are not cached in that version."""
        now = time.monotonic()
        versions = dict(wanted)
        # Another caller may empty the cache while this one waits for the database.
        found = {
            id_: cached
            for id_, version in versions.items()
            if (cached := self._cached.get(id_)) is not None
            and cached.version == version
            and now - cached.read_at <= _CACHED_SECONDS
        }
        if missing := [id_ for id_ in versions if id_ not in found]:
            rows = await self._database.fetch("subscription.for_delivery", missing)
            read = {row["id"]: self._open(row, now) for row in rows}
            if len(self._cached) + len(read) > self._cached_max:
                self._cached.clear()
            self._cached |= read
            found |= read
        return found

    def _open_secrets(self, row: Row) -> list[bytes]:
        """Open the secrets, newest first, no more than may sign one message (WH-S17)."""
        sealed_ones = zip(row["secret_numbers"], row["secret_key_ids"], row["secrets"], strict=True)
        return [
            self._secrets.open(key_id, sealed, secret_context(row["id"], number))
            for number, key_id, sealed in islice(sealed_ones, LIVE_KEYS_MAX)
        ]

    def _open_headers(self, row: Row) -> Mapping[str, str]:
        if row["headers_sealed"] is None:
            return {}
        opened = self._secrets.open(row["headers_key_id"], row["headers_sealed"], headers_context(row["id"]))
        headers: dict[str, str] = json.loads(opened)
        return headers

    def _open(self, row: Row, now: float) -> Subscriber:
        target, refusal, refusal_kind = None, "", "blocked"
        secrets: list[bytes] = []
        headers: Mapping[str, str] = {}
        try:
            secrets = self._open_secrets(row)
            headers = self._open_headers(row)
            target = parse_target(row["callback"], self._policy)
        except UrlRefused as error:
            refusal = str(error)
        except SecretBoxError as error:  # nothing is sent unsigned; the other subscriptions go on
            _log.error("secret_not_opened", subscription=row["public_id"], error=str(error))
            refusal, refusal_kind = "a sealed secret cannot be opened", "internal"
        websub = row["protocol"] in ("websub", "rabbithub")
        return Subscriber(
            id=row["id"],
            public_id=row["public_id"],
            version=row["version"],
            protocol=row["protocol"],
            target=target,
            refusal=refusal,
            refusal_kind=refusal_kind,
            keys=[hub_key(s.decode()) if websub else parse_key(s.decode()) for s in secrets],
            hub_secret=secrets[0] if websub and secrets else None,
            headers=headers,
            signature_method=row["signature_method"],
            format=row["format"],
            batch_max=(row["batch_max"] or 1) if row["format"] == "batch" else 1,
            template=row["template"],
            request_origin=row["request_origin"],
            topic_url=row["topic_url"],
            schedule=row["retry_schedule_seconds"],
            age_seconds_max=row["retry_age_seconds_max"],
            on_4xx=row["on_4xx"],
            on_410=row["on_410"],
            at_most_once=row["at_most_once"],
            parks=row["parks"],
            timeout_seconds=row["timeout_seconds"],
            lease_until=None if row["lease_seconds_left"] is None else now + row["lease_seconds_left"],
            read_at=now,
        )
