"""Nouns of the API and their verbs, for both clients. Written by ``scripts/client_nouns.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hookwire import models
from hookwire.client.noun import UNSET, AsyncNoun, AsyncRunner, Listed, Noun, Runner, segment
from hookwire.model import Content

__all__ = [
    "NOUNS",
    "AsyncAudit",
    "AsyncDeadLetters",
    "AsyncDeliveries",
    "AsyncErasures",
    "AsyncEvents",
    "AsyncHolds",
    "AsyncIncidents",
    "AsyncJobs",
    "AsyncKeys",
    "AsyncKinds",
    "AsyncNouns",
    "AsyncQueues",
    "AsyncReplays",
    "AsyncRequests",
    "AsyncSchedules",
    "AsyncServices",
    "AsyncSigningKeys",
    "AsyncSinks",
    "AsyncSources",
    "AsyncSubscriptions",
    "AsyncTasks",
    "AsyncTopics",
    "AsyncUndelivered",
    "AsyncUpstreams",
    "Audit",
    "DeadLetters",
    "Deliveries",
    "Erasures",
    "Events",
    "Holds",
    "Incidents",
    "Jobs",
    "Keys",
    "Kinds",
    "Nouns",
    "Queues",
    "Replays",
    "Requests",
    "Schedules",
    "Services",
    "SigningKeys",
    "Sinks",
    "Sources",
    "Subscriptions",
    "Tasks",
    "Topics",
    "Undelivered",
    "Upstreams",
]

NOUNS = (
    "events",
    "subscriptions",
    "signing_keys",
    "topics",
    "deliveries",
    "undelivered",
    "dead_letters",
    "replays",
    "incidents",
    "holds",
    "sinks",
    "sources",
    "erasures",
    "upstreams",
    "keys",
    "queues",
    "tasks",
    "jobs",
    "kinds",
    "schedules",
    "services",
    "requests",
    "audit",
)
"""Attributes of a client."""


class Events(Noun):
    """Published events and what became of them."""

    def get(self, event_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Event:
        """Get an event and its outcome."""
        return self._model(
            "GET", f"/events/{segment(event_id)}", "events.get", models.Event, timeout_seconds=timeout_seconds
        )

    def list(
        self,
        *,
        topic: str | None = UNSET,
        key: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        outcome: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.EventSummary]:
        """Search events by topic, key, time and outcome."""
        return self._pages(
            "GET",
            "/events",
            "events.list",
            models.EventSummary,
            query={"topic": topic, "key": key, "since": since, "until": until, "outcome": outcome, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def timeline(self, event_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Timeline:
        """Get what happened to an event."""
        return self._model(
            "GET",
            f"/events/{segment(event_id)}/timeline",
            "events.timeline",
            models.Timeline,
            timeout_seconds=timeout_seconds,
        )


class AsyncEvents(AsyncNoun):
    """Published events and what became of them."""

    async def get(self, event_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Event:
        """Get an event and its outcome."""
        return await self._model(
            "GET", f"/events/{segment(event_id)}", "events.get", models.Event, timeout_seconds=timeout_seconds
        )

    def list(
        self,
        *,
        topic: str | None = UNSET,
        key: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        outcome: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.EventSummary]:
        """Search events by topic, key, time and outcome."""
        return self._pages(
            "GET",
            "/events",
            "events.list",
            models.EventSummary,
            query={"topic": topic, "key": key, "since": since, "until": until, "outcome": outcome, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def timeline(self, event_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Timeline:
        """Get what happened to an event."""
        return await self._model(
            "GET",
            f"/events/{segment(event_id)}/timeline",
            "events.timeline",
            models.Timeline,
            timeout_seconds=timeout_seconds,
        )


class Subscriptions(Noun):
    """Topics and the callbacks, or pull clients, that get their events."""

    def ack(
        self, subscription_id: str | int, /, *, receipts: Sequence[str], timeout_seconds: float | None = None
    ) -> Listed[models.Settled]:
        """Acknowledge deliveries."""
        return self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/ack",
            "subscriptions.ack",
            models.Settled,
            members={"receipts": receipts},
            timeout_seconds=timeout_seconds,
        )

    def change(
        self,
        subscription_id: str | int,
        /,
        *,
        if_match: str | None = UNSET,
        name: str | None = UNSET,
        description: str | None = UNSET,
        metadata: Mapping[str, Any] | None = UNSET,
        retry_schedule_seconds: Sequence[int] | None = UNSET,
        retry_age_seconds_max: int | None = UNSET,
        on_4xx: str | None = UNSET,
        on_410: str | None = UNSET,
        on_exhausted: str | None = UNSET,
        timeout_seconds: float | None = UNSET,
        rate_per_second: float | None = UNSET,
        rate_burst: int | None = UNSET,
        format: str | None = UNSET,
        batch_max: int | None = UNSET,
        template: str | None = UNSET,
        headers: Mapping[str, Any] | None = UNSET,
        topic: str | None = UNSET,
        callback: str | None = UNSET,
        state: str | None = UNSET,
        drains: bool | None = UNSET,
        mode: str | None = UNSET,
        ordered: bool | None = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
    ) -> models.Subscription:
        """Change a subscription."""
        return self._model(
            "PATCH",
            f"/subscriptions/{segment(subscription_id)}",
            "subscriptions.change",
            models.Subscription,
            headers={"if-match": if_match},
            members={
                "name": name,
                "description": description,
                "metadata": metadata,
                "retry_schedule_seconds": retry_schedule_seconds,
                "retry_age_seconds_max": retry_age_seconds_max,
                "on_4xx": on_4xx,
                "on_410": on_410,
                "on_exhausted": on_exhausted,
                "timeout_seconds": timeout_seconds,
                "rate_per_second": rate_per_second,
                "rate_burst": rate_burst,
                "format": format,
                "batch_max": batch_max,
                "template": template,
                "headers": headers,
                "topic": topic,
                "callback": callback,
                "state": state,
                "drains": drains,
                "mode": mode,
                "ordered": ordered,
                "filter": filter,
            },
        )

    def create(
        self,
        *,
        callback: str,
        name: str | None = UNSET,
        description: str | None = UNSET,
        metadata: Mapping[str, Any] | None = UNSET,
        retry_schedule_seconds: Sequence[int] | None = UNSET,
        retry_age_seconds_max: int | None = UNSET,
        on_4xx: str | None = UNSET,
        on_410: str | None = UNSET,
        on_exhausted: str | None = UNSET,
        timeout_seconds: float | None = UNSET,
        rate_per_second: float | None = UNSET,
        rate_burst: int | None = UNSET,
        format: str | None = UNSET,
        batch_max: int | None = UNSET,
        template: str | None = UNSET,
        headers: Mapping[str, Any] | None = UNSET,
        topic: str | None = UNSET,
        service: str | None = UNSET,
        kind: str | None = UNSET,
        queue: str | None = UNSET,
        secret: str | None = UNSET,
        state: str = UNSET,
        mode: str | None = UNSET,
        ordered: bool = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
        idempotency_key: str | None = None,
    ) -> models.SubscriptionCreated:
        """Subscribe a callback to a topic or a pattern, or to a service or a kind of jobs."""
        return self._model(
            "POST",
            "/subscriptions",
            "subscriptions.create",
            models.SubscriptionCreated,
            members={
                "callback": callback,
                "name": name,
                "description": description,
                "metadata": metadata,
                "retry_schedule_seconds": retry_schedule_seconds,
                "retry_age_seconds_max": retry_age_seconds_max,
                "on_4xx": on_4xx,
                "on_410": on_410,
                "on_exhausted": on_exhausted,
                "timeout_seconds": timeout_seconds,
                "rate_per_second": rate_per_second,
                "rate_burst": rate_burst,
                "format": format,
                "batch_max": batch_max,
                "template": template,
                "headers": headers,
                "topic": topic,
                "service": service,
                "kind": kind,
                "queue": queue,
                "secret": secret,
                "state": state,
                "mode": mode,
                "ordered": ordered,
                "filter": filter,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
        )

    def create_pull(
        self,
        *,
        topic: str,
        name: str | None = UNSET,
        ordered: bool = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
        lifetime_seconds: int | None = UNSET,
        start: str | None = UNSET,
        on_end: str = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Subscription:
        """Create a pull subscription."""
        return self._model(
            "POST",
            "/subscriptions/pull",
            "subscriptions.create_pull",
            models.Subscription,
            members={
                "topic": topic,
                "name": name,
                "ordered": ordered,
                "filter": filter,
                "lifetime_seconds": lifetime_seconds,
                "start": start,
                "on_end": on_end,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def delete(
        self, subscription_id: str | int, /, *, if_match: str | None = UNSET, timeout_seconds: float | None = None
    ) -> None:
        """End a subscription."""
        self._none(
            "DELETE",
            f"/subscriptions/{segment(subscription_id)}",
            "subscriptions.delete",
            headers={"if-match": if_match},
            timeout_seconds=timeout_seconds,
        )

    def deny(
        self,
        subscription_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Deny an active WebSub subscription."""
        self._none(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/denial",
            "subscriptions.deny",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def dequeue(
        self,
        subscription_id: str | int,
        /,
        *,
        max: int = UNSET,
        lease_seconds: float = UNSET,
        wait_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Pulled]:
        """Fetch deliveries."""
        return self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/dequeue",
            "subscriptions.dequeue",
            models.Pulled,
            members={"max": max, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds},
            timeout_seconds=timeout_seconds,
        )

    def extend(
        self,
        subscription_id: str | int,
        /,
        *,
        receipts: Sequence[str],
        lease_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Settled]:
        """Hold deliveries for longer."""
        return self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/extend",
            "subscriptions.extend",
            models.Settled,
            members={"receipts": receipts, "lease_seconds": lease_seconds},
            timeout_seconds=timeout_seconds,
        )

    def get(self, subscription_id: str | int, /, *, timeout_seconds: float | None = None) -> models.SubscriptionDetail:
        """Get a subscription."""
        return self._model(
            "GET",
            f"/subscriptions/{segment(subscription_id)}",
            "subscriptions.get",
            models.SubscriptionDetail,
            timeout_seconds=timeout_seconds,
        )

    def handshake(self, subscription_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Subscription:
        """Ask the callback for its consent (CloudEvents)."""
        return self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/handshake",
            "subscriptions.handshake",
            models.Subscription,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        topic: str | None = UNSET,
        state: str | None = UNSET,
        health: str | None = UNSET,
        name: str | None = UNSET,
        metadata: Sequence[str] | None = UNSET,
        host: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Subscription]:
        """List subscriptions."""
        return self._pages(
            "GET",
            "/subscriptions",
            "subscriptions.list",
            models.Subscription,
            query={
                "topic": topic,
                "state": state,
                "health": health,
                "name": name,
                "metadata": metadata,
                "host": host,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )

    def nack(
        self,
        subscription_id: str | int,
        /,
        *,
        receipts: Sequence[str],
        delay_seconds: float = UNSET,
        reason: str | None = UNSET,
        dead: bool = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Settled]:
        """Return deliveries."""
        return self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/nack",
            "subscriptions.nack",
            models.Settled,
            members={"receipts": receipts, "delay_seconds": delay_seconds, "reason": reason, "dead": dead},
            timeout_seconds=timeout_seconds,
        )

    def replay(
        self,
        subscription_id: str | int,
        /,
        *,
        start: str,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.OwnReplay:
        """Replay missed events."""
        return self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/replay",
            "subscriptions.replay",
            models.OwnReplay,
            members={"start": start},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def stats(
        self,
        subscription_id: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        grain: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.SubscriptionStats:
        """Get a subscription's rates and times."""
        return self._model(
            "GET",
            f"/subscriptions/{segment(subscription_id)}/stats",
            "subscriptions.stats",
            models.SubscriptionStats,
            query={"since": since, "until": until, "grain": grain},
            timeout_seconds=timeout_seconds,
        )

    def test_filter(
        self,
        *,
        filter: Mapping[str, Any],
        event_id: str | None = UNSET,
        event: Mapping[str, Any] | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.FilterVerdict:
        """Try a filter on an event."""
        return self._model(
            "POST",
            "/filters/test",
            "subscriptions.test_filter",
            models.FilterVerdict,
            members={"filter": filter, "event_id": event_id, "event": event},
            timeout_seconds=timeout_seconds,
        )

    def test_send(
        self, subscription_id: str | int, /, *, idempotency_key: str | None = None, timeout_seconds: float | None = None
    ) -> models.TestSent:
        """Send a test event."""
        return self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/test",
            "subscriptions.test_send",
            models.TestSent,
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncSubscriptions(AsyncNoun):
    """Topics and the callbacks, or pull clients, that get their events."""

    async def ack(
        self, subscription_id: str | int, /, *, receipts: Sequence[str], timeout_seconds: float | None = None
    ) -> Listed[models.Settled]:
        """Acknowledge deliveries."""
        return await self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/ack",
            "subscriptions.ack",
            models.Settled,
            members={"receipts": receipts},
            timeout_seconds=timeout_seconds,
        )

    async def change(
        self,
        subscription_id: str | int,
        /,
        *,
        if_match: str | None = UNSET,
        name: str | None = UNSET,
        description: str | None = UNSET,
        metadata: Mapping[str, Any] | None = UNSET,
        retry_schedule_seconds: Sequence[int] | None = UNSET,
        retry_age_seconds_max: int | None = UNSET,
        on_4xx: str | None = UNSET,
        on_410: str | None = UNSET,
        on_exhausted: str | None = UNSET,
        timeout_seconds: float | None = UNSET,
        rate_per_second: float | None = UNSET,
        rate_burst: int | None = UNSET,
        format: str | None = UNSET,
        batch_max: int | None = UNSET,
        template: str | None = UNSET,
        headers: Mapping[str, Any] | None = UNSET,
        topic: str | None = UNSET,
        callback: str | None = UNSET,
        state: str | None = UNSET,
        drains: bool | None = UNSET,
        mode: str | None = UNSET,
        ordered: bool | None = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
    ) -> models.Subscription:
        """Change a subscription."""
        return await self._model(
            "PATCH",
            f"/subscriptions/{segment(subscription_id)}",
            "subscriptions.change",
            models.Subscription,
            headers={"if-match": if_match},
            members={
                "name": name,
                "description": description,
                "metadata": metadata,
                "retry_schedule_seconds": retry_schedule_seconds,
                "retry_age_seconds_max": retry_age_seconds_max,
                "on_4xx": on_4xx,
                "on_410": on_410,
                "on_exhausted": on_exhausted,
                "timeout_seconds": timeout_seconds,
                "rate_per_second": rate_per_second,
                "rate_burst": rate_burst,
                "format": format,
                "batch_max": batch_max,
                "template": template,
                "headers": headers,
                "topic": topic,
                "callback": callback,
                "state": state,
                "drains": drains,
                "mode": mode,
                "ordered": ordered,
                "filter": filter,
            },
        )

    async def create(
        self,
        *,
        callback: str,
        name: str | None = UNSET,
        description: str | None = UNSET,
        metadata: Mapping[str, Any] | None = UNSET,
        retry_schedule_seconds: Sequence[int] | None = UNSET,
        retry_age_seconds_max: int | None = UNSET,
        on_4xx: str | None = UNSET,
        on_410: str | None = UNSET,
        on_exhausted: str | None = UNSET,
        timeout_seconds: float | None = UNSET,
        rate_per_second: float | None = UNSET,
        rate_burst: int | None = UNSET,
        format: str | None = UNSET,
        batch_max: int | None = UNSET,
        template: str | None = UNSET,
        headers: Mapping[str, Any] | None = UNSET,
        topic: str | None = UNSET,
        service: str | None = UNSET,
        kind: str | None = UNSET,
        queue: str | None = UNSET,
        secret: str | None = UNSET,
        state: str = UNSET,
        mode: str | None = UNSET,
        ordered: bool = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
        idempotency_key: str | None = None,
    ) -> models.SubscriptionCreated:
        """Subscribe a callback to a topic or a pattern, or to a service or a kind of jobs."""
        return await self._model(
            "POST",
            "/subscriptions",
            "subscriptions.create",
            models.SubscriptionCreated,
            members={
                "callback": callback,
                "name": name,
                "description": description,
                "metadata": metadata,
                "retry_schedule_seconds": retry_schedule_seconds,
                "retry_age_seconds_max": retry_age_seconds_max,
                "on_4xx": on_4xx,
                "on_410": on_410,
                "on_exhausted": on_exhausted,
                "timeout_seconds": timeout_seconds,
                "rate_per_second": rate_per_second,
                "rate_burst": rate_burst,
                "format": format,
                "batch_max": batch_max,
                "template": template,
                "headers": headers,
                "topic": topic,
                "service": service,
                "kind": kind,
                "queue": queue,
                "secret": secret,
                "state": state,
                "mode": mode,
                "ordered": ordered,
                "filter": filter,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
        )

    async def create_pull(
        self,
        *,
        topic: str,
        name: str | None = UNSET,
        ordered: bool = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
        lifetime_seconds: int | None = UNSET,
        start: str | None = UNSET,
        on_end: str = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Subscription:
        """Create a pull subscription."""
        return await self._model(
            "POST",
            "/subscriptions/pull",
            "subscriptions.create_pull",
            models.Subscription,
            members={
                "topic": topic,
                "name": name,
                "ordered": ordered,
                "filter": filter,
                "lifetime_seconds": lifetime_seconds,
                "start": start,
                "on_end": on_end,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def delete(
        self, subscription_id: str | int, /, *, if_match: str | None = UNSET, timeout_seconds: float | None = None
    ) -> None:
        """End a subscription."""
        await self._none(
            "DELETE",
            f"/subscriptions/{segment(subscription_id)}",
            "subscriptions.delete",
            headers={"if-match": if_match},
            timeout_seconds=timeout_seconds,
        )

    async def deny(
        self,
        subscription_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Deny an active WebSub subscription."""
        await self._none(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/denial",
            "subscriptions.deny",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def dequeue(
        self,
        subscription_id: str | int,
        /,
        *,
        max: int = UNSET,
        lease_seconds: float = UNSET,
        wait_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Pulled]:
        """Fetch deliveries."""
        return await self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/dequeue",
            "subscriptions.dequeue",
            models.Pulled,
            members={"max": max, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds},
            timeout_seconds=timeout_seconds,
        )

    async def extend(
        self,
        subscription_id: str | int,
        /,
        *,
        receipts: Sequence[str],
        lease_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Settled]:
        """Hold deliveries for longer."""
        return await self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/extend",
            "subscriptions.extend",
            models.Settled,
            members={"receipts": receipts, "lease_seconds": lease_seconds},
            timeout_seconds=timeout_seconds,
        )

    async def get(
        self, subscription_id: str | int, /, *, timeout_seconds: float | None = None
    ) -> models.SubscriptionDetail:
        """Get a subscription."""
        return await self._model(
            "GET",
            f"/subscriptions/{segment(subscription_id)}",
            "subscriptions.get",
            models.SubscriptionDetail,
            timeout_seconds=timeout_seconds,
        )

    async def handshake(
        self, subscription_id: str | int, /, *, timeout_seconds: float | None = None
    ) -> models.Subscription:
        """Ask the callback for its consent (CloudEvents)."""
        return await self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/handshake",
            "subscriptions.handshake",
            models.Subscription,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        topic: str | None = UNSET,
        state: str | None = UNSET,
        health: str | None = UNSET,
        name: str | None = UNSET,
        metadata: Sequence[str] | None = UNSET,
        host: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Subscription]:
        """List subscriptions."""
        return self._pages(
            "GET",
            "/subscriptions",
            "subscriptions.list",
            models.Subscription,
            query={
                "topic": topic,
                "state": state,
                "health": health,
                "name": name,
                "metadata": metadata,
                "host": host,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )

    async def nack(
        self,
        subscription_id: str | int,
        /,
        *,
        receipts: Sequence[str],
        delay_seconds: float = UNSET,
        reason: str | None = UNSET,
        dead: bool = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Settled]:
        """Return deliveries."""
        return await self._items(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/nack",
            "subscriptions.nack",
            models.Settled,
            members={"receipts": receipts, "delay_seconds": delay_seconds, "reason": reason, "dead": dead},
            timeout_seconds=timeout_seconds,
        )

    async def replay(
        self,
        subscription_id: str | int,
        /,
        *,
        start: str,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.OwnReplay:
        """Replay missed events."""
        return await self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/replay",
            "subscriptions.replay",
            models.OwnReplay,
            members={"start": start},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def stats(
        self,
        subscription_id: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        grain: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.SubscriptionStats:
        """Get a subscription's rates and times."""
        return await self._model(
            "GET",
            f"/subscriptions/{segment(subscription_id)}/stats",
            "subscriptions.stats",
            models.SubscriptionStats,
            query={"since": since, "until": until, "grain": grain},
            timeout_seconds=timeout_seconds,
        )

    async def test_filter(
        self,
        *,
        filter: Mapping[str, Any],
        event_id: str | None = UNSET,
        event: Mapping[str, Any] | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.FilterVerdict:
        """Try a filter on an event."""
        return await self._model(
            "POST",
            "/filters/test",
            "subscriptions.test_filter",
            models.FilterVerdict,
            members={"filter": filter, "event_id": event_id, "event": event},
            timeout_seconds=timeout_seconds,
        )

    async def test_send(
        self, subscription_id: str | int, /, *, idempotency_key: str | None = None, timeout_seconds: float | None = None
    ) -> models.TestSent:
        """Send a test event."""
        return await self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/test",
            "subscriptions.test_send",
            models.TestSent,
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class SigningKeys(Noun):
    """The keys that sign the deliveries of a subscription."""

    def end(self, subscription_id: str | int, number: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """End a key."""
        self._none(
            "DELETE",
            f"/subscriptions/{segment(subscription_id)}/keys/{segment(number)}",
            "signing_keys.end",
            timeout_seconds=timeout_seconds,
        )

    def list(self, subscription_id: str | int, /, *, timeout_seconds: float | None = None) -> Listed[models.SigningKey]:
        """List the signing keys."""
        return self._items(
            "GET",
            f"/subscriptions/{segment(subscription_id)}/keys",
            "signing_keys.list",
            models.SigningKey,
            timeout_seconds=timeout_seconds,
        )

    def rotate(
        self,
        subscription_id: str | int,
        /,
        *,
        type: str = UNSET,
        secret: str | None = UNSET,
        overlap_seconds: int | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.SigningKeyMade:
        """Rotate: create a new key."""
        return self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/keys",
            "signing_keys.rotate",
            models.SigningKeyMade,
            members={"type": type, "secret": secret, "overlap_seconds": overlap_seconds},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncSigningKeys(AsyncNoun):
    """The keys that sign the deliveries of a subscription."""

    async def end(
        self, subscription_id: str | int, number: str | int, /, *, timeout_seconds: float | None = None
    ) -> None:
        """End a key."""
        await self._none(
            "DELETE",
            f"/subscriptions/{segment(subscription_id)}/keys/{segment(number)}",
            "signing_keys.end",
            timeout_seconds=timeout_seconds,
        )

    async def list(
        self, subscription_id: str | int, /, *, timeout_seconds: float | None = None
    ) -> Listed[models.SigningKey]:
        """List the signing keys."""
        return await self._items(
            "GET",
            f"/subscriptions/{segment(subscription_id)}/keys",
            "signing_keys.list",
            models.SigningKey,
            timeout_seconds=timeout_seconds,
        )

    async def rotate(
        self,
        subscription_id: str | int,
        /,
        *,
        type: str = UNSET,
        secret: str | None = UNSET,
        overlap_seconds: int | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.SigningKeyMade:
        """Rotate: create a new key."""
        return await self._model(
            "POST",
            f"/subscriptions/{segment(subscription_id)}/keys",
            "signing_keys.rotate",
            models.SigningKeyMade,
            members={"type": type, "secret": secret, "overlap_seconds": overlap_seconds},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Topics(Noun):
    """Topics, their settings and their latest content."""

    def get_schema(
        self, topic: str | int, /, *, version: int | None = UNSET, timeout_seconds: float | None = None
    ) -> models.TopicSchema:
        """Get a topic's schema."""
        return self._model(
            "GET",
            f"/topics/{segment(topic)}/schema",
            "topics.get_schema",
            models.TopicSchema,
            query={"version": version},
            timeout_seconds=timeout_seconds,
        )

    def get_settings(self, topic: str | int, /, *, timeout_seconds: float | None = None) -> models.TopicSettings:
        """Get a topic's settings."""
        return self._model(
            "GET",
            f"/topics/{segment(topic)}/settings",
            "topics.get_settings",
            models.TopicSettings,
            timeout_seconds=timeout_seconds,
        )

    def latest(self, topic: str | int, /, *, timeout_seconds: float | None = None) -> Content:
        """Get the topic's latest content."""
        return self._content("GET", f"/topics/{segment(topic)}", "topics.latest", timeout_seconds=timeout_seconds)

    def list(
        self, *, prefix: str | None = UNSET, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.Topic]:
        """List topics."""
        return self._pages(
            "GET",
            "/topics",
            "topics.list",
            models.Topic,
            query={"prefix": prefix, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_foreign(
        self, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.ForeignTopic]:
        """List topics of other publishers."""
        return self._pages(
            "GET",
            "/foreign-topics",
            "topics.list_foreign",
            models.ForeignTopic,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_schemas(
        self, topic: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.SchemaVersion]:
        """List the versions of a topic's schema."""
        return self._pages(
            "GET",
            f"/topics/{segment(topic)}/schemas",
            "topics.list_schemas",
            models.SchemaVersion,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def put_schema(
        self,
        topic: str | int,
        /,
        *,
        schema: Mapping[str, Any],
        if_match: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.TopicSchema:
        """Set a topic's schema."""
        return self._model(
            "PUT",
            f"/topics/{segment(topic)}/schema",
            "topics.put_schema",
            models.TopicSchema,
            headers={"if-match": if_match},
            members={"schema": schema},
            timeout_seconds=timeout_seconds,
        )

    def put_settings(
        self,
        topic: str | int,
        /,
        *,
        if_match: str | None = UNSET,
        sinks: Sequence[str] | None = UNSET,
        order: str = UNSET,
        kafka_topic: str | None = UNSET,
        amqp_exchange: str | None = UNSET,
        amqp_routing_key: str | None = UNSET,
        on_refused: str | None = UNSET,
        validator_url: str | None = UNSET,
        moved_to: str | None = UNSET,
        retention_days: int | None = UNSET,
        job: Mapping[str, Any] | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.TopicSettings:
        """Set a topic's settings."""
        return self._model(
            "PUT",
            f"/topics/{segment(topic)}/settings",
            "topics.put_settings",
            models.TopicSettings,
            headers={"if-match": if_match},
            members={
                "sinks": sinks,
                "order": order,
                "kafka_topic": kafka_topic,
                "amqp_exchange": amqp_exchange,
                "amqp_routing_key": amqp_routing_key,
                "on_refused": on_refused,
                "validator_url": validator_url,
                "moved_to": moved_to,
                "retention_days": retention_days,
                "job": job,
            },
            timeout_seconds=timeout_seconds,
        )

    def register_foreign(
        self,
        *,
        url: str,
        feed_diff: bool | None = UNSET,
        always_deliver: bool | None = UNSET,
        sinks: Sequence[str] | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.ForeignTopic:
        """Register a topic of another publisher."""
        return self._model(
            "PUT",
            "/foreign-topics",
            "topics.register_foreign",
            models.ForeignTopic,
            members={"url": url, "feed_diff": feed_diff, "always_deliver": always_deliver, "sinks": sinks},
            timeout_seconds=timeout_seconds,
        )

    def stats(
        self,
        topic: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.TopicStats:
        """Get a topic's rates."""
        return self._model(
            "GET",
            f"/topics/{segment(topic)}/stats",
            "topics.stats",
            models.TopicStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )


class AsyncTopics(AsyncNoun):
    """Topics, their settings and their latest content."""

    async def get_schema(
        self, topic: str | int, /, *, version: int | None = UNSET, timeout_seconds: float | None = None
    ) -> models.TopicSchema:
        """Get a topic's schema."""
        return await self._model(
            "GET",
            f"/topics/{segment(topic)}/schema",
            "topics.get_schema",
            models.TopicSchema,
            query={"version": version},
            timeout_seconds=timeout_seconds,
        )

    async def get_settings(self, topic: str | int, /, *, timeout_seconds: float | None = None) -> models.TopicSettings:
        """Get a topic's settings."""
        return await self._model(
            "GET",
            f"/topics/{segment(topic)}/settings",
            "topics.get_settings",
            models.TopicSettings,
            timeout_seconds=timeout_seconds,
        )

    async def latest(self, topic: str | int, /, *, timeout_seconds: float | None = None) -> Content:
        """Get the topic's latest content."""
        return await self._content("GET", f"/topics/{segment(topic)}", "topics.latest", timeout_seconds=timeout_seconds)

    def list(
        self, *, prefix: str | None = UNSET, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.Topic]:
        """List topics."""
        return self._pages(
            "GET",
            "/topics",
            "topics.list",
            models.Topic,
            query={"prefix": prefix, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_foreign(
        self, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.ForeignTopic]:
        """List topics of other publishers."""
        return self._pages(
            "GET",
            "/foreign-topics",
            "topics.list_foreign",
            models.ForeignTopic,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_schemas(
        self, topic: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.SchemaVersion]:
        """List the versions of a topic's schema."""
        return self._pages(
            "GET",
            f"/topics/{segment(topic)}/schemas",
            "topics.list_schemas",
            models.SchemaVersion,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def put_schema(
        self,
        topic: str | int,
        /,
        *,
        schema: Mapping[str, Any],
        if_match: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.TopicSchema:
        """Set a topic's schema."""
        return await self._model(
            "PUT",
            f"/topics/{segment(topic)}/schema",
            "topics.put_schema",
            models.TopicSchema,
            headers={"if-match": if_match},
            members={"schema": schema},
            timeout_seconds=timeout_seconds,
        )

    async def put_settings(
        self,
        topic: str | int,
        /,
        *,
        if_match: str | None = UNSET,
        sinks: Sequence[str] | None = UNSET,
        order: str = UNSET,
        kafka_topic: str | None = UNSET,
        amqp_exchange: str | None = UNSET,
        amqp_routing_key: str | None = UNSET,
        on_refused: str | None = UNSET,
        validator_url: str | None = UNSET,
        moved_to: str | None = UNSET,
        retention_days: int | None = UNSET,
        job: Mapping[str, Any] | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.TopicSettings:
        """Set a topic's settings."""
        return await self._model(
            "PUT",
            f"/topics/{segment(topic)}/settings",
            "topics.put_settings",
            models.TopicSettings,
            headers={"if-match": if_match},
            members={
                "sinks": sinks,
                "order": order,
                "kafka_topic": kafka_topic,
                "amqp_exchange": amqp_exchange,
                "amqp_routing_key": amqp_routing_key,
                "on_refused": on_refused,
                "validator_url": validator_url,
                "moved_to": moved_to,
                "retention_days": retention_days,
                "job": job,
            },
            timeout_seconds=timeout_seconds,
        )

    async def register_foreign(
        self,
        *,
        url: str,
        feed_diff: bool | None = UNSET,
        always_deliver: bool | None = UNSET,
        sinks: Sequence[str] | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.ForeignTopic:
        """Register a topic of another publisher."""
        return await self._model(
            "PUT",
            "/foreign-topics",
            "topics.register_foreign",
            models.ForeignTopic,
            members={"url": url, "feed_diff": feed_diff, "always_deliver": always_deliver, "sinks": sinks},
            timeout_seconds=timeout_seconds,
        )

    async def stats(
        self,
        topic: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.TopicStats:
        """Get a topic's rates."""
        return await self._model(
            "GET",
            f"/topics/{segment(topic)}/stats",
            "topics.stats",
            models.TopicStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )


class Deliveries(Noun):
    """Each event for each subscription, and its attempts."""

    def attempts(self, delivery_id: str | int, /, *, timeout_seconds: float | None = None) -> Listed[models.Attempt]:
        """List the attempts of a delivery."""
        return self._items(
            "GET",
            f"/deliveries/{segment(delivery_id)}/attempts",
            "deliveries.attempts",
            models.Attempt,
            timeout_seconds=timeout_seconds,
        )

    def give_up(
        self,
        delivery_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeliveryDone:
        """Give up a delivery."""
        return self._model(
            "POST",
            f"/deliveries/{segment(delivery_id)}/give-up",
            "deliveries.give_up",
            models.DeliveryDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        event: str | None = UNSET,
        subscription: str | None = UNSET,
        state: str | None = UNSET,
        topic: str | None = UNSET,
        outcome: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Delivery]:
        """List deliveries by event, subscription, topic, state and outcome."""
        return self._pages(
            "GET",
            "/deliveries",
            "deliveries.list",
            models.Delivery,
            query={
                "event_id": event,
                "subscription_id": subscription,
                "state": state,
                "topic": topic,
                "outcome": outcome,
                "since": since,
                "until": until,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )

    def retry(
        self,
        delivery_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeliveryDone:
        """Retry a delivery now."""
        return self._model(
            "POST",
            f"/deliveries/{segment(delivery_id)}/retry",
            "deliveries.retry",
            models.DeliveryDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncDeliveries(AsyncNoun):
    """Each event for each subscription, and its attempts."""

    async def attempts(
        self, delivery_id: str | int, /, *, timeout_seconds: float | None = None
    ) -> Listed[models.Attempt]:
        """List the attempts of a delivery."""
        return await self._items(
            "GET",
            f"/deliveries/{segment(delivery_id)}/attempts",
            "deliveries.attempts",
            models.Attempt,
            timeout_seconds=timeout_seconds,
        )

    async def give_up(
        self,
        delivery_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeliveryDone:
        """Give up a delivery."""
        return await self._model(
            "POST",
            f"/deliveries/{segment(delivery_id)}/give-up",
            "deliveries.give_up",
            models.DeliveryDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        event: str | None = UNSET,
        subscription: str | None = UNSET,
        state: str | None = UNSET,
        topic: str | None = UNSET,
        outcome: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Delivery]:
        """List deliveries by event, subscription, topic, state and outcome."""
        return self._pages(
            "GET",
            "/deliveries",
            "deliveries.list",
            models.Delivery,
            query={
                "event_id": event,
                "subscription_id": subscription,
                "state": state,
                "topic": topic,
                "outcome": outcome,
                "since": since,
                "until": until,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )

    async def retry(
        self,
        delivery_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeliveryDone:
        """Retry a delivery now."""
        return await self._model(
            "POST",
            f"/deliveries/{segment(delivery_id)}/retry",
            "deliveries.retry",
            models.DeliveryDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Undelivered(Noun):
    """Deliveries that wait or were given up."""

    def list(
        self,
        *,
        subscription: str | None = UNSET,
        outcome: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Undelivered]:
        """List undelivered events with their reasons."""
        return self._pages(
            "GET",
            "/undelivered",
            "undelivered.list",
            models.Undelivered,
            query={"subscription_id": subscription, "outcome": outcome, "since": since, "until": until, "limit": limit},
            timeout_seconds=timeout_seconds,
        )


class AsyncUndelivered(AsyncNoun):
    """Deliveries that wait or were given up."""

    def list(
        self,
        *,
        subscription: str | None = UNSET,
        outcome: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Undelivered]:
        """List undelivered events with their reasons."""
        return self._pages(
            "GET",
            "/undelivered",
            "undelivered.list",
            models.Undelivered,
            query={"subscription_id": subscription, "outcome": outcome, "since": since, "until": until, "limit": limit},
            timeout_seconds=timeout_seconds,
        )


class DeadLetters(Noun):
    """Deliveries and records that were given up."""

    def list(
        self,
        *,
        sink: str | None = UNSET,
        subscription: str | None = UNSET,
        kind: str | None = UNSET,
        incident_id: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.DeadLetter]:
        """List dead letters."""
        return self._pages(
            "GET",
            "/dead-letters",
            "dead_letters.list",
            models.DeadLetter,
            query={
                "sink": sink,
                "subscription_id": subscription,
                "kind": kind,
                "incident_id": incident_id,
                "since": since,
                "until": until,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )

    def purge(
        self,
        dead_letter: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeadLetterDone:
        """Delete a dead letter."""
        return self._model(
            "POST",
            f"/dead-letters/{segment(dead_letter)}/purge",
            "dead_letters.purge",
            models.DeadLetterDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def retry(
        self,
        dead_letter: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeadLetterDone:
        """Retry a dead letter."""
        return self._model(
            "POST",
            f"/dead-letters/{segment(dead_letter)}/retry",
            "dead_letters.retry",
            models.DeadLetterDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def show(self, dead_letter: str | int, /, *, timeout_seconds: float | None = None) -> models.DeadLetter:
        """Get a dead letter."""
        return self._model(
            "GET",
            f"/dead-letters/{segment(dead_letter)}",
            "dead_letters.show",
            models.DeadLetter,
            timeout_seconds=timeout_seconds,
        )


class AsyncDeadLetters(AsyncNoun):
    """Deliveries and records that were given up."""

    def list(
        self,
        *,
        sink: str | None = UNSET,
        subscription: str | None = UNSET,
        kind: str | None = UNSET,
        incident_id: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.DeadLetter]:
        """List dead letters."""
        return self._pages(
            "GET",
            "/dead-letters",
            "dead_letters.list",
            models.DeadLetter,
            query={
                "sink": sink,
                "subscription_id": subscription,
                "kind": kind,
                "incident_id": incident_id,
                "since": since,
                "until": until,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )

    async def purge(
        self,
        dead_letter: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeadLetterDone:
        """Delete a dead letter."""
        return await self._model(
            "POST",
            f"/dead-letters/{segment(dead_letter)}/purge",
            "dead_letters.purge",
            models.DeadLetterDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def retry(
        self,
        dead_letter: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.DeadLetterDone:
        """Retry a dead letter."""
        return await self._model(
            "POST",
            f"/dead-letters/{segment(dead_letter)}/retry",
            "dead_letters.retry",
            models.DeadLetterDone,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def show(self, dead_letter: str | int, /, *, timeout_seconds: float | None = None) -> models.DeadLetter:
        """Get a dead letter."""
        return await self._model(
            "GET",
            f"/dead-letters/{segment(dead_letter)}",
            "dead_letters.show",
            models.DeadLetter,
            timeout_seconds=timeout_seconds,
        )


class Replays(Noun):
    """Events sent again, in the background."""

    def cancel(
        self,
        replay: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay:
        """Cancel a replay."""
        return self._model(
            "POST",
            f"/replays/{segment(replay)}/cancel",
            "replays.cancel",
            models.Replay,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def create(
        self,
        *,
        source: str,
        act: str = UNSET,
        job_kind: str | None = UNSET,
        job_state: str | None = UNSET,
        incident_id: str | None = UNSET,
        subscription_id: str | None = UNSET,
        topic: str | None = UNSET,
        event_ids: Sequence[str] | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        kinds: Sequence[str] | None = UNSET,
        statuses: Sequence[int] | None = UNSET,
        rate_per_second: int | None = UNSET,
        reason: str | None = UNSET,
        dry_run: bool = UNSET,
        count_max: int = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay | models.DryRun:
        """Send again, delete, give up or cancel everything that matches."""
        return self._either(
            "POST",
            "/replays",
            "replays.create",
            models.Replay,
            models.DryRun,
            members={
                "source": source,
                "act": act,
                "job_kind": job_kind,
                "job_state": job_state,
                "incident_id": incident_id,
                "subscription_id": subscription_id,
                "topic": topic,
                "event_ids": event_ids,
                "since": since,
                "until": until,
                "kinds": kinds,
                "statuses": statuses,
                "rate_per_second": rate_per_second,
                "reason": reason,
                "dry_run": dry_run,
                "count_max": count_max,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def get(self, replay: str | int, /, *, timeout_seconds: float | None = None) -> models.Replay:
        """Get the progress of a replay."""
        return self._model(
            "GET", f"/replays/{segment(replay)}", "replays.get", models.Replay, timeout_seconds=timeout_seconds
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Replay]:
        """List replays."""
        return self._pages(
            "GET", "/replays", "replays.list", models.Replay, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def pause(
        self,
        replay: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay:
        """Pause a replay."""
        return self._model(
            "POST",
            f"/replays/{segment(replay)}/pause",
            "replays.pause",
            models.Replay,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def resume(
        self,
        replay: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay:
        """Resume a replay."""
        return self._model(
            "POST",
            f"/replays/{segment(replay)}/resume",
            "replays.resume",
            models.Replay,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncReplays(AsyncNoun):
    """Events sent again, in the background."""

    async def cancel(
        self,
        replay: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay:
        """Cancel a replay."""
        return await self._model(
            "POST",
            f"/replays/{segment(replay)}/cancel",
            "replays.cancel",
            models.Replay,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def create(
        self,
        *,
        source: str,
        act: str = UNSET,
        job_kind: str | None = UNSET,
        job_state: str | None = UNSET,
        incident_id: str | None = UNSET,
        subscription_id: str | None = UNSET,
        topic: str | None = UNSET,
        event_ids: Sequence[str] | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        kinds: Sequence[str] | None = UNSET,
        statuses: Sequence[int] | None = UNSET,
        rate_per_second: int | None = UNSET,
        reason: str | None = UNSET,
        dry_run: bool = UNSET,
        count_max: int = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay | models.DryRun:
        """Send again, delete, give up or cancel everything that matches."""
        return await self._either(
            "POST",
            "/replays",
            "replays.create",
            models.Replay,
            models.DryRun,
            members={
                "source": source,
                "act": act,
                "job_kind": job_kind,
                "job_state": job_state,
                "incident_id": incident_id,
                "subscription_id": subscription_id,
                "topic": topic,
                "event_ids": event_ids,
                "since": since,
                "until": until,
                "kinds": kinds,
                "statuses": statuses,
                "rate_per_second": rate_per_second,
                "reason": reason,
                "dry_run": dry_run,
                "count_max": count_max,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def get(self, replay: str | int, /, *, timeout_seconds: float | None = None) -> models.Replay:
        """Get the progress of a replay."""
        return await self._model(
            "GET", f"/replays/{segment(replay)}", "replays.get", models.Replay, timeout_seconds=timeout_seconds
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Replay]:
        """List replays."""
        return self._pages(
            "GET", "/replays", "replays.list", models.Replay, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    async def pause(
        self,
        replay: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay:
        """Pause a replay."""
        return await self._model(
            "POST",
            f"/replays/{segment(replay)}/pause",
            "replays.pause",
            models.Replay,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def resume(
        self,
        replay: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Replay:
        """Resume a replay."""
        return await self._model(
            "POST",
            f"/replays/{segment(replay)}/resume",
            "replays.resume",
            models.Replay,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Incidents(Noun):
    """Failures grouped by their cause."""

    def acknowledge(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Acknowledge an incident."""
        return self._model(
            "POST",
            f"/incidents/{segment(incident)}/acknowledge",
            "incidents.acknowledge",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def ignore(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Ignore an incident."""
        return self._model(
            "POST",
            f"/incidents/{segment(incident)}/ignore",
            "incidents.ignore",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        state: str | None = UNSET,
        kind: str | None = UNSET,
        active: bool = UNSET,
        subscription: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Incident]:
        """List incidents."""
        return self._pages(
            "GET",
            "/incidents",
            "incidents.list",
            models.Incident,
            query={"state": state, "kind": kind, "active": active, "subscription_id": subscription, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def probe(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        dead_letter_id: str | None = UNSET,
        content: str | None = UNSET,
        headers: Mapping[str, Any] = UNSET,
        target: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Probe:
        """Send one dead letter at once."""
        return self._model(
            "POST",
            f"/incidents/{segment(incident)}/probe",
            "incidents.probe",
            models.Probe,
            members={
                "reason": reason,
                "dead_letter_id": dead_letter_id,
                "content": content,
                "headers": headers,
                "target": target,
            },
            timeout_seconds=timeout_seconds,
        )

    def recover(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        rate_per_second: int | None = UNSET,
        dry_run: bool = UNSET,
        count_max: int = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Recover:
        """Probe an incident, and send its dead letters again if that is delivered."""
        return self._model(
            "POST",
            f"/incidents/{segment(incident)}/recover",
            "incidents.recover",
            models.Recover,
            members={"reason": reason, "rate_per_second": rate_per_second, "dry_run": dry_run, "count_max": count_max},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def reopen(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Open an incident again."""
        return self._model(
            "POST",
            f"/incidents/{segment(incident)}/reopen",
            "incidents.reopen",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def resolve(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Resolve an incident."""
        return self._model(
            "POST",
            f"/incidents/{segment(incident)}/resolve",
            "incidents.resolve",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def show(self, incident: str | int, /, *, timeout_seconds: float | None = None) -> models.IncidentDetail:
        """Get an incident."""
        return self._model(
            "GET",
            f"/incidents/{segment(incident)}",
            "incidents.show",
            models.IncidentDetail,
            timeout_seconds=timeout_seconds,
        )


class AsyncIncidents(AsyncNoun):
    """Failures grouped by their cause."""

    async def acknowledge(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Acknowledge an incident."""
        return await self._model(
            "POST",
            f"/incidents/{segment(incident)}/acknowledge",
            "incidents.acknowledge",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def ignore(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Ignore an incident."""
        return await self._model(
            "POST",
            f"/incidents/{segment(incident)}/ignore",
            "incidents.ignore",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        state: str | None = UNSET,
        kind: str | None = UNSET,
        active: bool = UNSET,
        subscription: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Incident]:
        """List incidents."""
        return self._pages(
            "GET",
            "/incidents",
            "incidents.list",
            models.Incident,
            query={"state": state, "kind": kind, "active": active, "subscription_id": subscription, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def probe(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        dead_letter_id: str | None = UNSET,
        content: str | None = UNSET,
        headers: Mapping[str, Any] = UNSET,
        target: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Probe:
        """Send one dead letter at once."""
        return await self._model(
            "POST",
            f"/incidents/{segment(incident)}/probe",
            "incidents.probe",
            models.Probe,
            members={
                "reason": reason,
                "dead_letter_id": dead_letter_id,
                "content": content,
                "headers": headers,
                "target": target,
            },
            timeout_seconds=timeout_seconds,
        )

    async def recover(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        rate_per_second: int | None = UNSET,
        dry_run: bool = UNSET,
        count_max: int = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Recover:
        """Probe an incident, and send its dead letters again if that is delivered."""
        return await self._model(
            "POST",
            f"/incidents/{segment(incident)}/recover",
            "incidents.recover",
            models.Recover,
            members={"reason": reason, "rate_per_second": rate_per_second, "dry_run": dry_run, "count_max": count_max},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def reopen(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Open an incident again."""
        return await self._model(
            "POST",
            f"/incidents/{segment(incident)}/reopen",
            "incidents.reopen",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def resolve(
        self,
        incident: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.IncidentDetail:
        """Resolve an incident."""
        return await self._model(
            "POST",
            f"/incidents/{segment(incident)}/resolve",
            "incidents.resolve",
            models.IncidentDetail,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def show(self, incident: str | int, /, *, timeout_seconds: float | None = None) -> models.IncidentDetail:
        """Get an incident."""
        return await self._model(
            "GET",
            f"/incidents/{segment(incident)}",
            "incidents.show",
            models.IncidentDetail,
            timeout_seconds=timeout_seconds,
        )


class Holds(Noun):
    """Keys and topics of a broker that wait because a record was refused."""

    def give_up(
        self,
        hold: str | int,
        /,
        *,
        reason: str | None = UNSET,
        all: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Verb:
        """Give up the oldest record of a hold, or all."""
        return self._model(
            "POST",
            f"/holds/{segment(hold)}/give-up",
            "holds.give_up",
            models.Verb,
            members={"reason": reason, "all": all},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        sink: str | None = UNSET,
        topic: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Hold]:
        """List holds."""
        return self._pages(
            "GET",
            "/holds",
            "holds.list",
            models.Hold,
            query={"sink": sink, "topic": topic, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def retry(
        self,
        hold: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Verb:
        """Retry a hold now."""
        return self._model(
            "POST",
            f"/holds/{segment(hold)}/retry",
            "holds.retry",
            models.Verb,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def show(self, hold: str | int, /, *, timeout_seconds: float | None = None) -> models.HoldDetail:
        """Get a hold."""
        return self._model(
            "GET", f"/holds/{segment(hold)}", "holds.show", models.HoldDetail, timeout_seconds=timeout_seconds
        )


class AsyncHolds(AsyncNoun):
    """Keys and topics of a broker that wait because a record was refused."""

    async def give_up(
        self,
        hold: str | int,
        /,
        *,
        reason: str | None = UNSET,
        all: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Verb:
        """Give up the oldest record of a hold, or all."""
        return await self._model(
            "POST",
            f"/holds/{segment(hold)}/give-up",
            "holds.give_up",
            models.Verb,
            members={"reason": reason, "all": all},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        sink: str | None = UNSET,
        topic: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Hold]:
        """List holds."""
        return self._pages(
            "GET",
            "/holds",
            "holds.list",
            models.Hold,
            query={"sink": sink, "topic": topic, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def retry(
        self,
        hold: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Verb:
        """Retry a hold now."""
        return await self._model(
            "POST",
            f"/holds/{segment(hold)}/retry",
            "holds.retry",
            models.Verb,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def show(self, hold: str | int, /, *, timeout_seconds: float | None = None) -> models.HoldDetail:
        """Get a hold."""
        return await self._model(
            "GET", f"/holds/{segment(hold)}", "holds.show", models.HoldDetail, timeout_seconds=timeout_seconds
        )


class Sinks(Noun):
    """Where events go: Kafka, AMQP, webhooks and jobs."""

    def forecast(self, sink: str | int, /, *, timeout_seconds: float | None = None) -> models.SinkForecast:
        """Foretell a pause."""
        return self._model(
            "GET",
            f"/sinks/{segment(sink)}/forecast",
            "sinks.forecast",
            models.SinkForecast,
            timeout_seconds=timeout_seconds,
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.CarriedSink]:
        """List sinks."""
        return self._pages(
            "GET", "/sinks", "sinks.list", models.CarriedSink, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def pause(
        self,
        sink: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.CarriedSink:
        """Pause a sink."""
        return self._model(
            "POST",
            f"/sinks/{segment(sink)}/pause",
            "sinks.pause",
            models.CarriedSink,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def resume(
        self,
        sink: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.CarriedSink:
        """Resume a sink."""
        return self._model(
            "POST",
            f"/sinks/{segment(sink)}/resume",
            "sinks.resume",
            models.CarriedSink,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def show(self, sink: str | int, /, *, timeout_seconds: float | None = None) -> models.CarriedSink:
        """Get a sink."""
        return self._model(
            "GET", f"/sinks/{segment(sink)}", "sinks.show", models.CarriedSink, timeout_seconds=timeout_seconds
        )


class AsyncSinks(AsyncNoun):
    """Where events go: Kafka, AMQP, webhooks and jobs."""

    async def forecast(self, sink: str | int, /, *, timeout_seconds: float | None = None) -> models.SinkForecast:
        """Foretell a pause."""
        return await self._model(
            "GET",
            f"/sinks/{segment(sink)}/forecast",
            "sinks.forecast",
            models.SinkForecast,
            timeout_seconds=timeout_seconds,
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.CarriedSink]:
        """List sinks."""
        return self._pages(
            "GET", "/sinks", "sinks.list", models.CarriedSink, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    async def pause(
        self,
        sink: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.CarriedSink:
        """Pause a sink."""
        return await self._model(
            "POST",
            f"/sinks/{segment(sink)}/pause",
            "sinks.pause",
            models.CarriedSink,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def resume(
        self,
        sink: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.CarriedSink:
        """Resume a sink."""
        return await self._model(
            "POST",
            f"/sinks/{segment(sink)}/resume",
            "sinks.resume",
            models.CarriedSink,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def show(self, sink: str | int, /, *, timeout_seconds: float | None = None) -> models.CarriedSink:
        """Get a sink."""
        return await self._model(
            "GET", f"/sinks/{segment(sink)}", "sinks.show", models.CarriedSink, timeout_seconds=timeout_seconds
        )


class Sources(Noun):
    """Kafka topics that are read, the records that they refused, and doors for webhooks of others."""

    def forget(
        self,
        *,
        source: str,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Forgotten:
        """Forget a source that nobody reads."""
        return self._model(
            "POST",
            "/sources/forget",
            "sources.forget",
            models.Forgotten,
            members={"source": source, "reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def give_up(
        self,
        refusal: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.SettledRefusal:
        """Forget a refused record."""
        return self._model(
            "POST",
            f"/source-refusals/{segment(refusal)}/give-up",
            "sources.give_up",
            models.SettledRefusal,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Source]:
        """List sources."""
        return self._pages(
            "GET", "/sources", "sources.list", models.Source, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def list_all_refusals(
        self, *, limit: int = UNSET, source: str | None = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.Refusal]:
        """List what all sources refused."""
        return self._pages(
            "GET",
            "/source-refusals",
            "sources.list_all_refusals",
            models.Refusal,
            query={"limit": limit, "source": source},
            timeout_seconds=timeout_seconds,
        )

    def list_refusals(
        self, source: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.Refusal]:
        """List refused records."""
        return self._pages(
            "GET",
            f"/sources/{segment(source)}/refusals",
            "sources.list_refusals",
            models.Refusal,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def pause(
        self,
        source: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Paused:
        """Pause a source."""
        return self._model(
            "POST",
            f"/sources/{segment(source)}/pause",
            "sources.pause",
            models.Paused,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def put_door(
        self,
        source: str | int,
        /,
        *,
        preset: str,
        secret: str | None = UNSET,
        overlap_seconds: int = UNSET,
        topic: str | None = UNSET,
        id: Sequence[str] | None = UNSET,
        type: Sequence[str] | None = UNSET,
        key: str | None = UNSET,
        headers: Sequence[str] | None = UNSET,
        scheme: Mapping[str, Any] | None = UNSET,
        remember_seconds: int | None = UNSET,
        rate_per_minute: int | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.DoorPut:
        """Set an inbound source."""
        return self._model(
            "PUT",
            f"/in/{segment(source)}",
            "sources.put_door",
            models.DoorPut,
            members={
                "preset": preset,
                "secret": secret,
                "overlap_seconds": overlap_seconds,
                "topic": topic,
                "id": id,
                "type": type,
                "key": key,
                "headers": headers,
                "scheme": scheme,
                "remember_seconds": remember_seconds,
                "rate_per_minute": rate_per_minute,
            },
            timeout_seconds=timeout_seconds,
        )

    def remove_door(self, source: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Remove an inbound source."""
        self._none("DELETE", f"/in/{segment(source)}", "sources.remove_door", timeout_seconds=timeout_seconds)

    def reset(
        self,
        source: str | int,
        /,
        *,
        reason: str | None = UNSET,
        partition: int | None = UNSET,
        offset: int | None = UNSET,
        dry_run: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Reset:
        """Move the offsets of a source."""
        return self._model(
            "POST",
            f"/sources/{segment(source)}/reset",
            "sources.reset",
            models.Reset,
            members={"reason": reason, "partition": partition, "offset": offset, "dry_run": dry_run},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def resume(
        self,
        source: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Paused:
        """Resume a source."""
        return self._model(
            "POST",
            f"/sources/{segment(source)}/resume",
            "sources.resume",
            models.Paused,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def retry(
        self,
        refusal: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.SettledRefusal:
        """Publish a refused record."""
        return self._model(
            "POST",
            f"/source-refusals/{segment(refusal)}/retry",
            "sources.retry",
            models.SettledRefusal,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def show_door(self, source: str | int, /, *, timeout_seconds: float | None = None) -> models.DoorDetail:
        """Show an inbound source."""
        return self._model(
            "GET", f"/in/{segment(source)}", "sources.show_door", models.DoorDetail, timeout_seconds=timeout_seconds
        )

    def show_refusal(self, refusal: str | int, /, *, timeout_seconds: float | None = None) -> models.RefusalDetail:
        """Show a refused record."""
        return self._model(
            "GET",
            f"/source-refusals/{segment(refusal)}",
            "sources.show_refusal",
            models.RefusalDetail,
            timeout_seconds=timeout_seconds,
        )

    def show_source(self, source: str | int, /, *, timeout_seconds: float | None = None) -> models.Source:
        """Show a source."""
        return self._model(
            "GET", f"/sources/{segment(source)}", "sources.show_source", models.Source, timeout_seconds=timeout_seconds
        )

    def test_door(
        self, source: str | int, /, *, publish: bool = UNSET, timeout_seconds: float | None = None
    ) -> models.DoorTested:
        """Try an inbound source."""
        return self._model(
            "POST",
            f"/in/{segment(source)}/test",
            "sources.test_door",
            models.DoorTested,
            members={"publish": publish},
            timeout_seconds=timeout_seconds,
        )


class AsyncSources(AsyncNoun):
    """Kafka topics that are read, the records that they refused, and doors for webhooks of others."""

    async def forget(
        self,
        *,
        source: str,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Forgotten:
        """Forget a source that nobody reads."""
        return await self._model(
            "POST",
            "/sources/forget",
            "sources.forget",
            models.Forgotten,
            members={"source": source, "reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def give_up(
        self,
        refusal: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.SettledRefusal:
        """Forget a refused record."""
        return await self._model(
            "POST",
            f"/source-refusals/{segment(refusal)}/give-up",
            "sources.give_up",
            models.SettledRefusal,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Source]:
        """List sources."""
        return self._pages(
            "GET", "/sources", "sources.list", models.Source, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def list_all_refusals(
        self, *, limit: int = UNSET, source: str | None = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.Refusal]:
        """List what all sources refused."""
        return self._pages(
            "GET",
            "/source-refusals",
            "sources.list_all_refusals",
            models.Refusal,
            query={"limit": limit, "source": source},
            timeout_seconds=timeout_seconds,
        )

    def list_refusals(
        self, source: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.Refusal]:
        """List refused records."""
        return self._pages(
            "GET",
            f"/sources/{segment(source)}/refusals",
            "sources.list_refusals",
            models.Refusal,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def pause(
        self,
        source: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Paused:
        """Pause a source."""
        return await self._model(
            "POST",
            f"/sources/{segment(source)}/pause",
            "sources.pause",
            models.Paused,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def put_door(
        self,
        source: str | int,
        /,
        *,
        preset: str,
        secret: str | None = UNSET,
        overlap_seconds: int = UNSET,
        topic: str | None = UNSET,
        id: Sequence[str] | None = UNSET,
        type: Sequence[str] | None = UNSET,
        key: str | None = UNSET,
        headers: Sequence[str] | None = UNSET,
        scheme: Mapping[str, Any] | None = UNSET,
        remember_seconds: int | None = UNSET,
        rate_per_minute: int | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.DoorPut:
        """Set an inbound source."""
        return await self._model(
            "PUT",
            f"/in/{segment(source)}",
            "sources.put_door",
            models.DoorPut,
            members={
                "preset": preset,
                "secret": secret,
                "overlap_seconds": overlap_seconds,
                "topic": topic,
                "id": id,
                "type": type,
                "key": key,
                "headers": headers,
                "scheme": scheme,
                "remember_seconds": remember_seconds,
                "rate_per_minute": rate_per_minute,
            },
            timeout_seconds=timeout_seconds,
        )

    async def remove_door(self, source: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Remove an inbound source."""
        await self._none("DELETE", f"/in/{segment(source)}", "sources.remove_door", timeout_seconds=timeout_seconds)

    async def reset(
        self,
        source: str | int,
        /,
        *,
        reason: str | None = UNSET,
        partition: int | None = UNSET,
        offset: int | None = UNSET,
        dry_run: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Reset:
        """Move the offsets of a source."""
        return await self._model(
            "POST",
            f"/sources/{segment(source)}/reset",
            "sources.reset",
            models.Reset,
            members={"reason": reason, "partition": partition, "offset": offset, "dry_run": dry_run},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def resume(
        self,
        source: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Paused:
        """Resume a source."""
        return await self._model(
            "POST",
            f"/sources/{segment(source)}/resume",
            "sources.resume",
            models.Paused,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def retry(
        self,
        refusal: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.SettledRefusal:
        """Publish a refused record."""
        return await self._model(
            "POST",
            f"/source-refusals/{segment(refusal)}/retry",
            "sources.retry",
            models.SettledRefusal,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def show_door(self, source: str | int, /, *, timeout_seconds: float | None = None) -> models.DoorDetail:
        """Show an inbound source."""
        return await self._model(
            "GET", f"/in/{segment(source)}", "sources.show_door", models.DoorDetail, timeout_seconds=timeout_seconds
        )

    async def show_refusal(
        self, refusal: str | int, /, *, timeout_seconds: float | None = None
    ) -> models.RefusalDetail:
        """Show a refused record."""
        return await self._model(
            "GET",
            f"/source-refusals/{segment(refusal)}",
            "sources.show_refusal",
            models.RefusalDetail,
            timeout_seconds=timeout_seconds,
        )

    async def show_source(self, source: str | int, /, *, timeout_seconds: float | None = None) -> models.Source:
        """Show a source."""
        return await self._model(
            "GET", f"/sources/{segment(source)}", "sources.show_source", models.Source, timeout_seconds=timeout_seconds
        )

    async def test_door(
        self, source: str | int, /, *, publish: bool = UNSET, timeout_seconds: float | None = None
    ) -> models.DoorTested:
        """Try an inbound source."""
        return await self._model(
            "POST",
            f"/in/{segment(source)}/test",
            "sources.test_door",
            models.DoorTested,
            members={"publish": publish},
            timeout_seconds=timeout_seconds,
        )


class Erasures(Noun):
    """Contents of events that are removed."""

    def erase(
        self,
        *,
        topic: str | None = UNSET,
        key: str | None = UNSET,
        subject: str | None = UNSET,
        event_ids: Sequence[str] | None = UNSET,
        after: str | None = UNSET,
        replace_key: bool = UNSET,
        force: bool = UNSET,
        reason: str | None = UNSET,
        dry_run: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Erasure:
        """Erase the contents of events."""
        return self._model(
            "POST",
            "/erasures",
            "erasures.erase",
            models.Erasure,
            members={
                "topic": topic,
                "key": key,
                "subject": subject,
                "event_ids": event_ids,
                "after": after,
                "replace_key": replace_key,
                "force": force,
                "reason": reason,
                "dry_run": dry_run,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncErasures(AsyncNoun):
    """Contents of events that are removed."""

    async def erase(
        self,
        *,
        topic: str | None = UNSET,
        key: str | None = UNSET,
        subject: str | None = UNSET,
        event_ids: Sequence[str] | None = UNSET,
        after: str | None = UNSET,
        replace_key: bool = UNSET,
        force: bool = UNSET,
        reason: str | None = UNSET,
        dry_run: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Erasure:
        """Erase the contents of events."""
        return await self._model(
            "POST",
            "/erasures",
            "erasures.erase",
            models.Erasure,
            members={
                "topic": topic,
                "key": key,
                "subject": subject,
                "event_ids": event_ids,
                "after": after,
                "replace_key": replace_key,
                "force": force,
                "reason": reason,
                "dry_run": dry_run,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Upstreams(Noun):
    """Topics of other publishers that this hub subscribes to."""

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Upstream]:
        """List topics that other hubs deliver here."""
        return self._pages(
            "GET",
            "/upstreams",
            "upstreams.list",
            models.Upstream,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def subscribe(
        self,
        *,
        url: str,
        sinks: Sequence[str] | None = UNSET,
        hub_url: str | None = UNSET,
        topic_url: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.UpstreamIn:
        """Subscribe to another publisher's topic."""
        return self._model(
            "PUT",
            "/upstreams",
            "upstreams.subscribe",
            models.UpstreamIn,
            members={"url": url, "sinks": sinks, "hub_url": hub_url, "topic_url": topic_url},
            timeout_seconds=timeout_seconds,
        )

    def unsubscribe(self, *, url: str, timeout_seconds: float | None = None) -> None:
        """Unsubscribe from another publisher's topic."""
        self._none("DELETE", "/upstreams", "upstreams.unsubscribe", query={"url": url}, timeout_seconds=timeout_seconds)


class AsyncUpstreams(AsyncNoun):
    """Topics of other publishers that this hub subscribes to."""

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Upstream]:
        """List topics that other hubs deliver here."""
        return self._pages(
            "GET",
            "/upstreams",
            "upstreams.list",
            models.Upstream,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def subscribe(
        self,
        *,
        url: str,
        sinks: Sequence[str] | None = UNSET,
        hub_url: str | None = UNSET,
        topic_url: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.UpstreamIn:
        """Subscribe to another publisher's topic."""
        return await self._model(
            "PUT",
            "/upstreams",
            "upstreams.subscribe",
            models.UpstreamIn,
            members={"url": url, "sinks": sinks, "hub_url": hub_url, "topic_url": topic_url},
            timeout_seconds=timeout_seconds,
        )

    async def unsubscribe(self, *, url: str, timeout_seconds: float | None = None) -> None:
        """Unsubscribe from another publisher's topic."""
        await self._none(
            "DELETE", "/upstreams", "upstreams.unsubscribe", query={"url": url}, timeout_seconds=timeout_seconds
        )


class Keys(Noun):
    """Keys that permit the use of the API."""

    def create(
        self,
        *,
        name: str,
        scopes: Sequence[str],
        topics: Sequence[str] | None = UNSET,
        queues: Sequence[str] | None = UNSET,
        kinds: Sequence[str] | None = UNSET,
        services: Sequence[str] | None = UNSET,
        lifetime_seconds: int | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.KeyCreated:
        """Create an API key."""
        return self._model(
            "POST",
            "/keys",
            "keys.create",
            models.KeyCreated,
            members={
                "name": name,
                "scopes": scopes,
                "topics": topics,
                "queues": queues,
                "kinds": kinds,
                "services": services,
                "lifetime_seconds": lifetime_seconds,
            },
            timeout_seconds=timeout_seconds,
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Key]:
        """List API keys."""
        return self._pages(
            "GET", "/keys", "keys.list", models.Key, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def revoke(self, key_id: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Revoke an API key."""
        self._none("DELETE", f"/keys/{segment(key_id)}", "keys.revoke", timeout_seconds=timeout_seconds)


class AsyncKeys(AsyncNoun):
    """Keys that permit the use of the API."""

    async def create(
        self,
        *,
        name: str,
        scopes: Sequence[str],
        topics: Sequence[str] | None = UNSET,
        queues: Sequence[str] | None = UNSET,
        kinds: Sequence[str] | None = UNSET,
        services: Sequence[str] | None = UNSET,
        lifetime_seconds: int | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.KeyCreated:
        """Create an API key."""
        return await self._model(
            "POST",
            "/keys",
            "keys.create",
            models.KeyCreated,
            members={
                "name": name,
                "scopes": scopes,
                "topics": topics,
                "queues": queues,
                "kinds": kinds,
                "services": services,
                "lifetime_seconds": lifetime_seconds,
            },
            timeout_seconds=timeout_seconds,
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Key]:
        """List API keys."""
        return self._pages(
            "GET", "/keys", "keys.list", models.Key, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    async def revoke(self, key_id: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Revoke an API key."""
        await self._none("DELETE", f"/keys/{segment(key_id)}", "keys.revoke", timeout_seconds=timeout_seconds)


class Queues(Noun):
    """Message queues."""

    def accept(
        self, queue: str | int, /, *, receipts: Sequence[str], timeout_seconds: float | None = None
    ) -> Listed[models.Receipt]:
        """Accept messages."""
        return self._items(
            "POST",
            f"/queues/{segment(queue)}/accept",
            "queues.accept",
            models.Receipt,
            members={"receipts": receipts},
            timeout_seconds=timeout_seconds,
        )

    def browse(
        self,
        queue: str | int,
        /,
        *,
        limit: int = UNSET,
        after: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Message]:
        """Browse available messages."""
        return self._pages(
            "GET",
            f"/queues/{segment(queue)}/messages",
            "queues.browse",
            models.Message,
            query={"limit": limit, "after": after},
            timeout_seconds=timeout_seconds,
        )

    def extend(
        self,
        queue: str | int,
        /,
        *,
        receipts: Sequence[str],
        lease_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Receipt]:
        """Hold messages for longer."""
        return self._items(
            "POST",
            f"/queues/{segment(queue)}/extend",
            "queues.extend",
            models.Receipt,
            members={"receipts": receipts, "lease_seconds": lease_seconds},
            timeout_seconds=timeout_seconds,
        )

    def get(self, queue: str | int, /, *, timeout_seconds: float | None = None) -> models.Queue:
        """A queue."""
        return self._model(
            "GET", f"/queues/{segment(queue)}", "queues.get", models.Queue, timeout_seconds=timeout_seconds
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Queue]:
        """List queues."""
        return self._pages(
            "GET", "/queues", "queues.list", models.Queue, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def list_archive(
        self, queue: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.Archived]:
        """List accepted messages of a queue that keeps history."""
        return self._pages(
            "GET",
            f"/queues/{segment(queue)}/archive",
            "queues.list_archive",
            models.Archived,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_consumers(self, queue: str | int, /, *, timeout_seconds: float | None = None) -> Listed[models.Consumer]:
        """List consumers of copies."""
        return self._items(
            "GET",
            f"/queues/{segment(queue)}/consumers",
            "queues.list_consumers",
            models.Consumer,
            timeout_seconds=timeout_seconds,
        )

    def list_dead(
        self, queue: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.DeadMessage]:
        """List dead letters of a queue."""
        return self._pages(
            "GET",
            f"/queues/{segment(queue)}/dead",
            "queues.list_dead",
            models.DeadMessage,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def make_temporary(
        self,
        *,
        lifetime_seconds: int = UNSET,
        owner: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Queue:
        """Create a temporary queue."""
        return self._model(
            "POST",
            "/queues",
            "queues.make_temporary",
            models.Queue,
            members={"lifetime_seconds": lifetime_seconds, "owner": owner},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def pause(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Pause a queue."""
        self._none(
            "POST",
            f"/queues/{segment(queue)}/pause",
            "queues.pause",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def purge_dead(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        ids: Sequence[str] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Chosen:
        """Delete dead letters."""
        return self._model(
            "POST",
            f"/queues/{segment(queue)}/dead/purge",
            "queues.purge_dead",
            models.Chosen,
            members={"reason": reason, "ids": ids},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def put(
        self,
        queue: str | int,
        /,
        *,
        moves: bool = UNSET,
        copies: bool = UNSET,
        history: bool = UNSET,
        lease_seconds: float = UNSET,
        deliveries_max: int = UNSET,
        retention_days: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Queue:
        """Set a queue's settings."""
        return self._model(
            "PUT",
            f"/queues/{segment(queue)}",
            "queues.put",
            models.Queue,
            members={
                "moves": moves,
                "copies": copies,
                "history": history,
                "lease_seconds": lease_seconds,
                "deliveries_max": deliveries_max,
                "retention_days": retention_days,
            },
            timeout_seconds=timeout_seconds,
        )

    def receive(
        self,
        queue: str | int,
        /,
        *,
        max: int = UNSET,
        lease_seconds: float | None = UNSET,
        wait_seconds: float = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
        consumer: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Received]:
        """Receive messages."""
        return self._items(
            "POST",
            f"/queues/{segment(queue)}/receive",
            "queues.receive",
            models.Received,
            members={
                "max": max,
                "lease_seconds": lease_seconds,
                "wait_seconds": wait_seconds,
                "filter": filter,
                "consumer": consumer,
            },
            timeout_seconds=timeout_seconds,
        )

    def redrive(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        ids: Sequence[str] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Chosen:
        """Return dead letters to their queue."""
        return self._model(
            "POST",
            f"/queues/{segment(queue)}/dead/redrive",
            "queues.redrive",
            models.Chosen,
            members={"reason": reason, "ids": ids},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def register(
        self,
        queue: str | int,
        consumer: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> None:
        """Register a consumer of copies."""
        self._none(
            "PUT",
            f"/queues/{segment(queue)}/consumers/{segment(consumer)}",
            "queues.register",
            members={"since": since},
            timeout_seconds=timeout_seconds,
        )

    def reject(
        self,
        queue: str | int,
        /,
        *,
        receipts: Sequence[str],
        delay_seconds: float = UNSET,
        reason: str | None = UNSET,
        dead: bool = UNSET,
        count: bool = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Receipt]:
        """Return messages."""
        return self._items(
            "POST",
            f"/queues/{segment(queue)}/reject",
            "queues.reject",
            models.Receipt,
            members={
                "receipts": receipts,
                "delay_seconds": delay_seconds,
                "reason": reason,
                "dead": dead,
                "count": count,
            },
            timeout_seconds=timeout_seconds,
        )

    def remove(self, queue: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Remove a queue."""
        self._none("DELETE", f"/queues/{segment(queue)}", "queues.remove", timeout_seconds=timeout_seconds)

    def remove_consumer(
        self, queue: str | int, consumer: str | int, /, *, timeout_seconds: float | None = None
    ) -> None:
        """Remove a consumer of copies."""
        self._none(
            "DELETE",
            f"/queues/{segment(queue)}/consumers/{segment(consumer)}",
            "queues.remove_consumer",
            timeout_seconds=timeout_seconds,
        )

    def resume(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Resume a queue."""
        self._none(
            "POST",
            f"/queues/{segment(queue)}/resume",
            "queues.resume",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def stats(
        self,
        queue: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get a queue's rates and times."""
        return self._model(
            "GET",
            f"/queues/{segment(queue)}/stats",
            "queues.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )

    def submit(
        self,
        queue: str | int,
        /,
        body: bytes = b"",
        *,
        type: str | None = UNSET,
        key: str | None = UNSET,
        priority: int = UNSET,
        delay_seconds: float = UNSET,
        content_type: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Submitted:
        """Submit a message."""
        return self._model(
            "POST",
            f"/queues/{segment(queue)}/messages",
            "queues.submit",
            models.Submitted,
            headers={
                "Hookwire-Type": type,
                "Hookwire-Key": key,
                "Hookwire-Priority": priority,
                "Hookwire-Delay-Seconds": delay_seconds,
            },
            body=body,
            content_type=content_type,
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncQueues(AsyncNoun):
    """Message queues."""

    async def accept(
        self, queue: str | int, /, *, receipts: Sequence[str], timeout_seconds: float | None = None
    ) -> Listed[models.Receipt]:
        """Accept messages."""
        return await self._items(
            "POST",
            f"/queues/{segment(queue)}/accept",
            "queues.accept",
            models.Receipt,
            members={"receipts": receipts},
            timeout_seconds=timeout_seconds,
        )

    def browse(
        self,
        queue: str | int,
        /,
        *,
        limit: int = UNSET,
        after: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Message]:
        """Browse available messages."""
        return self._pages(
            "GET",
            f"/queues/{segment(queue)}/messages",
            "queues.browse",
            models.Message,
            query={"limit": limit, "after": after},
            timeout_seconds=timeout_seconds,
        )

    async def extend(
        self,
        queue: str | int,
        /,
        *,
        receipts: Sequence[str],
        lease_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Receipt]:
        """Hold messages for longer."""
        return await self._items(
            "POST",
            f"/queues/{segment(queue)}/extend",
            "queues.extend",
            models.Receipt,
            members={"receipts": receipts, "lease_seconds": lease_seconds},
            timeout_seconds=timeout_seconds,
        )

    async def get(self, queue: str | int, /, *, timeout_seconds: float | None = None) -> models.Queue:
        """A queue."""
        return await self._model(
            "GET", f"/queues/{segment(queue)}", "queues.get", models.Queue, timeout_seconds=timeout_seconds
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Queue]:
        """List queues."""
        return self._pages(
            "GET", "/queues", "queues.list", models.Queue, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def list_archive(
        self, queue: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.Archived]:
        """List accepted messages of a queue that keeps history."""
        return self._pages(
            "GET",
            f"/queues/{segment(queue)}/archive",
            "queues.list_archive",
            models.Archived,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def list_consumers(
        self, queue: str | int, /, *, timeout_seconds: float | None = None
    ) -> Listed[models.Consumer]:
        """List consumers of copies."""
        return await self._items(
            "GET",
            f"/queues/{segment(queue)}/consumers",
            "queues.list_consumers",
            models.Consumer,
            timeout_seconds=timeout_seconds,
        )

    def list_dead(
        self, queue: str | int, /, *, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.DeadMessage]:
        """List dead letters of a queue."""
        return self._pages(
            "GET",
            f"/queues/{segment(queue)}/dead",
            "queues.list_dead",
            models.DeadMessage,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def make_temporary(
        self,
        *,
        lifetime_seconds: int = UNSET,
        owner: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Queue:
        """Create a temporary queue."""
        return await self._model(
            "POST",
            "/queues",
            "queues.make_temporary",
            models.Queue,
            members={"lifetime_seconds": lifetime_seconds, "owner": owner},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def pause(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Pause a queue."""
        await self._none(
            "POST",
            f"/queues/{segment(queue)}/pause",
            "queues.pause",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def purge_dead(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        ids: Sequence[str] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Chosen:
        """Delete dead letters."""
        return await self._model(
            "POST",
            f"/queues/{segment(queue)}/dead/purge",
            "queues.purge_dead",
            models.Chosen,
            members={"reason": reason, "ids": ids},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def put(
        self,
        queue: str | int,
        /,
        *,
        moves: bool = UNSET,
        copies: bool = UNSET,
        history: bool = UNSET,
        lease_seconds: float = UNSET,
        deliveries_max: int = UNSET,
        retention_days: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Queue:
        """Set a queue's settings."""
        return await self._model(
            "PUT",
            f"/queues/{segment(queue)}",
            "queues.put",
            models.Queue,
            members={
                "moves": moves,
                "copies": copies,
                "history": history,
                "lease_seconds": lease_seconds,
                "deliveries_max": deliveries_max,
                "retention_days": retention_days,
            },
            timeout_seconds=timeout_seconds,
        )

    async def receive(
        self,
        queue: str | int,
        /,
        *,
        max: int = UNSET,
        lease_seconds: float | None = UNSET,
        wait_seconds: float = UNSET,
        filter: Mapping[str, Any] | None = UNSET,
        consumer: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Received]:
        """Receive messages."""
        return await self._items(
            "POST",
            f"/queues/{segment(queue)}/receive",
            "queues.receive",
            models.Received,
            members={
                "max": max,
                "lease_seconds": lease_seconds,
                "wait_seconds": wait_seconds,
                "filter": filter,
                "consumer": consumer,
            },
            timeout_seconds=timeout_seconds,
        )

    async def redrive(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        ids: Sequence[str] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Chosen:
        """Return dead letters to their queue."""
        return await self._model(
            "POST",
            f"/queues/{segment(queue)}/dead/redrive",
            "queues.redrive",
            models.Chosen,
            members={"reason": reason, "ids": ids},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def register(
        self,
        queue: str | int,
        consumer: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> None:
        """Register a consumer of copies."""
        await self._none(
            "PUT",
            f"/queues/{segment(queue)}/consumers/{segment(consumer)}",
            "queues.register",
            members={"since": since},
            timeout_seconds=timeout_seconds,
        )

    async def reject(
        self,
        queue: str | int,
        /,
        *,
        receipts: Sequence[str],
        delay_seconds: float = UNSET,
        reason: str | None = UNSET,
        dead: bool = UNSET,
        count: bool = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Receipt]:
        """Return messages."""
        return await self._items(
            "POST",
            f"/queues/{segment(queue)}/reject",
            "queues.reject",
            models.Receipt,
            members={
                "receipts": receipts,
                "delay_seconds": delay_seconds,
                "reason": reason,
                "dead": dead,
                "count": count,
            },
            timeout_seconds=timeout_seconds,
        )

    async def remove(self, queue: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Remove a queue."""
        await self._none("DELETE", f"/queues/{segment(queue)}", "queues.remove", timeout_seconds=timeout_seconds)

    async def remove_consumer(
        self, queue: str | int, consumer: str | int, /, *, timeout_seconds: float | None = None
    ) -> None:
        """Remove a consumer of copies."""
        await self._none(
            "DELETE",
            f"/queues/{segment(queue)}/consumers/{segment(consumer)}",
            "queues.remove_consumer",
            timeout_seconds=timeout_seconds,
        )

    async def resume(
        self,
        queue: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Resume a queue."""
        await self._none(
            "POST",
            f"/queues/{segment(queue)}/resume",
            "queues.resume",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def stats(
        self,
        queue: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get a queue's rates and times."""
        return await self._model(
            "GET",
            f"/queues/{segment(queue)}/stats",
            "queues.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )

    async def submit(
        self,
        queue: str | int,
        /,
        body: bytes = b"",
        *,
        type: str | None = UNSET,
        key: str | None = UNSET,
        priority: int = UNSET,
        delay_seconds: float = UNSET,
        content_type: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Submitted:
        """Submit a message."""
        return await self._model(
            "POST",
            f"/queues/{segment(queue)}/messages",
            "queues.submit",
            models.Submitted,
            headers={
                "Hookwire-Type": type,
                "Hookwire-Key": key,
                "Hookwire-Priority": priority,
                "Hookwire-Delay-Seconds": delay_seconds,
            },
            body=body,
            content_type=content_type,
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Tasks(Noun):
    """Background work of a transaction."""

    def cancel(
        self,
        task_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Cancel a task that no worker has begun."""
        self._none(
            "POST",
            f"/tasks/{segment(task_id)}/cancel",
            "tasks.cancel",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def counts(self, *, timeout_seconds: float | None = None) -> models.TaskCounts:
        """Count tasks."""
        return self._model("GET", "/tasks/counts", "tasks.counts", models.TaskCounts, timeout_seconds=timeout_seconds)

    def get(self, task_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Task:
        """Get an unfinished task."""
        return self._model(
            "GET", f"/tasks/{segment(task_id)}", "tasks.get", models.Task, timeout_seconds=timeout_seconds
        )

    def list(
        self,
        *,
        kind: str | None = UNSET,
        state: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Task]:
        """List tasks."""
        return self._pages(
            "GET",
            "/tasks",
            "tasks.list",
            models.Task,
            query={"kind": kind, "state": state, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_dead(
        self, *, kind: str | None = UNSET, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> Iterator[models.DeadTask]:
        """List dead tasks."""
        return self._pages(
            "GET",
            "/tasks/dead",
            "tasks.list_dead",
            models.DeadTask,
            query={"kind": kind, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_kinds(self, *, timeout_seconds: float | None = None) -> Listed[models.Kind]:
        """List the settings of kinds."""
        return self._items("GET", "/task-kinds", "tasks.list_kinds", models.Kind, timeout_seconds=timeout_seconds)

    def purge(
        self,
        *,
        reason: str | None = UNSET,
        numbers: Sequence[int] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Numbers:
        """Delete dead tasks."""
        return self._model(
            "POST",
            "/tasks/dead/purge",
            "tasks.purge",
            models.Numbers,
            members={"reason": reason, "numbers": numbers},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def put_kind(
        self,
        kind: str | int,
        /,
        *,
        on_crash: str | None = UNSET,
        compensation_kind: str | None = UNSET,
        notify: str | None = UNSET,
        lookup_seconds: float | None = UNSET,
        giveup_seconds: float | None = UNSET,
        cleanup_seconds: float | None = UNSET,
        crash_seconds: float | None = UNSET,
        attempts_max: int | None = UNSET,
        age_seconds_max: float | None = UNSET,
        backoff_seconds_min: float | None = UNSET,
        backoff_seconds_max: float | None = UNSET,
        doublings_max: int | None = UNSET,
        keeps_record: bool | None = UNSET,
        is_unique: bool | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Kind:
        """Set how tasks of a kind are treated."""
        return self._model(
            "PUT",
            f"/task-kinds/{segment(kind)}",
            "tasks.put_kind",
            models.Kind,
            members={
                "on_crash": on_crash,
                "compensation_kind": compensation_kind,
                "notify": notify,
                "lookup_seconds": lookup_seconds,
                "giveup_seconds": giveup_seconds,
                "cleanup_seconds": cleanup_seconds,
                "crash_seconds": crash_seconds,
                "attempts_max": attempts_max,
                "age_seconds_max": age_seconds_max,
                "backoff_seconds_min": backoff_seconds_min,
                "backoff_seconds_max": backoff_seconds_max,
                "doublings_max": doublings_max,
                "keeps_record": keeps_record,
                "is_unique": is_unique,
            },
            timeout_seconds=timeout_seconds,
        )

    def redrive(
        self,
        *,
        reason: str | None = UNSET,
        numbers: Sequence[int] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Numbers:
        """Return dead tasks."""
        return self._model(
            "POST",
            "/tasks/dead/redrive",
            "tasks.redrive",
            models.Numbers,
            members={"reason": reason, "numbers": numbers},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def stats(
        self,
        kind: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get rates and times of a kind of tasks."""
        return self._model(
            "GET",
            f"/task-kinds/{segment(kind)}/stats",
            "tasks.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )


class AsyncTasks(AsyncNoun):
    """Background work of a transaction."""

    async def cancel(
        self,
        task_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Cancel a task that no worker has begun."""
        await self._none(
            "POST",
            f"/tasks/{segment(task_id)}/cancel",
            "tasks.cancel",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def counts(self, *, timeout_seconds: float | None = None) -> models.TaskCounts:
        """Count tasks."""
        return await self._model(
            "GET", "/tasks/counts", "tasks.counts", models.TaskCounts, timeout_seconds=timeout_seconds
        )

    async def get(self, task_id: str | int, /, *, timeout_seconds: float | None = None) -> models.Task:
        """Get an unfinished task."""
        return await self._model(
            "GET", f"/tasks/{segment(task_id)}", "tasks.get", models.Task, timeout_seconds=timeout_seconds
        )

    def list(
        self,
        *,
        kind: str | None = UNSET,
        state: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Task]:
        """List tasks."""
        return self._pages(
            "GET",
            "/tasks",
            "tasks.list",
            models.Task,
            query={"kind": kind, "state": state, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def list_dead(
        self, *, kind: str | None = UNSET, limit: int = UNSET, timeout_seconds: float | None = None
    ) -> AsyncIterator[models.DeadTask]:
        """List dead tasks."""
        return self._pages(
            "GET",
            "/tasks/dead",
            "tasks.list_dead",
            models.DeadTask,
            query={"kind": kind, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def list_kinds(self, *, timeout_seconds: float | None = None) -> Listed[models.Kind]:
        """List the settings of kinds."""
        return await self._items("GET", "/task-kinds", "tasks.list_kinds", models.Kind, timeout_seconds=timeout_seconds)

    async def purge(
        self,
        *,
        reason: str | None = UNSET,
        numbers: Sequence[int] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Numbers:
        """Delete dead tasks."""
        return await self._model(
            "POST",
            "/tasks/dead/purge",
            "tasks.purge",
            models.Numbers,
            members={"reason": reason, "numbers": numbers},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def put_kind(
        self,
        kind: str | int,
        /,
        *,
        on_crash: str | None = UNSET,
        compensation_kind: str | None = UNSET,
        notify: str | None = UNSET,
        lookup_seconds: float | None = UNSET,
        giveup_seconds: float | None = UNSET,
        cleanup_seconds: float | None = UNSET,
        crash_seconds: float | None = UNSET,
        attempts_max: int | None = UNSET,
        age_seconds_max: float | None = UNSET,
        backoff_seconds_min: float | None = UNSET,
        backoff_seconds_max: float | None = UNSET,
        doublings_max: int | None = UNSET,
        keeps_record: bool | None = UNSET,
        is_unique: bool | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Kind:
        """Set how tasks of a kind are treated."""
        return await self._model(
            "PUT",
            f"/task-kinds/{segment(kind)}",
            "tasks.put_kind",
            models.Kind,
            members={
                "on_crash": on_crash,
                "compensation_kind": compensation_kind,
                "notify": notify,
                "lookup_seconds": lookup_seconds,
                "giveup_seconds": giveup_seconds,
                "cleanup_seconds": cleanup_seconds,
                "crash_seconds": crash_seconds,
                "attempts_max": attempts_max,
                "age_seconds_max": age_seconds_max,
                "backoff_seconds_min": backoff_seconds_min,
                "backoff_seconds_max": backoff_seconds_max,
                "doublings_max": doublings_max,
                "keeps_record": keeps_record,
                "is_unique": is_unique,
            },
            timeout_seconds=timeout_seconds,
        )

    async def redrive(
        self,
        *,
        reason: str | None = UNSET,
        numbers: Sequence[int] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.Numbers:
        """Return dead tasks."""
        return await self._model(
            "POST",
            "/tasks/dead/redrive",
            "tasks.redrive",
            models.Numbers,
            members={"reason": reason, "numbers": numbers},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def stats(
        self,
        kind: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get rates and times of a kind of tasks."""
        return await self._model(
            "GET",
            f"/task-kinds/{segment(kind)}/stats",
            "tasks.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )


class Jobs(Noun):
    """Work for people and machines."""

    def approve(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Approve a job in review."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/approve",
            "jobs.approve",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def assign(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        assignee: str | None = UNSET,
        due_at: datetime | str | None = UNSET,
        on_due: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Take a job of the pool, or assign it."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/assign",
            "jobs.assign",
            models.State,
            members={"reason": reason, "assignee": assignee, "due_at": due_at, "on_due": on_due},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def cancel(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Cancel a job."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/cancel",
            "jobs.cancel",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def claim(
        self,
        *,
        kinds: Sequence[str] | None = UNSET,
        queue: str = UNSET,
        max: int = UNSET,
        lease_seconds: float | None = UNSET,
        wait_seconds: float = UNSET,
        worker: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Claimed]:
        """Claim jobs."""
        return self._items(
            "POST",
            "/jobs/claim",
            "jobs.claim",
            models.Claimed,
            members={
                "kinds": kinds,
                "queue": queue,
                "max": max,
                "lease_seconds": lease_seconds,
                "wait_seconds": wait_seconds,
                "worker": worker,
            },
            timeout_seconds=timeout_seconds,
        )

    def complete(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        result: Any = UNSET,
        events: Sequence[Mapping[str, Any]] = UNSET,
        jobs: Sequence[Mapping[str, Any]] = UNSET,
        note: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> None:
        """Complete a job with a result."""
        self._none(
            "POST",
            f"/jobs/{segment(job_id)}/complete",
            "jobs.complete",
            members={"receipt": receipt, "result": result, "events": events, "jobs": jobs, "note": note},
            timeout_seconds=timeout_seconds,
        )

    def decline(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Give up a job in review, or the caller's own job."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/decline",
            "jobs.decline",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def delay(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        due_at: datetime | str | None = UNSET,
        due_local: datetime | str | None = UNSET,
        due_zone: str | None = UNSET,
        to_pool: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Delay a job to a date."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/delay",
            "jobs.delay",
            models.State,
            members={
                "reason": reason,
                "due_at": due_at,
                "due_local": due_local,
                "due_zone": due_zone,
                "to_pool": to_pool,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def enqueue(
        self,
        *,
        kind: str,
        args: Any = UNSET,
        uniq: str | None = UNSET,
        uniq_seconds: float | None = UNSET,
        on_conflict: str | None = UNSET,
        key: str | None = UNSET,
        queue: str | None = UNSET,
        priority: int | None = UNSET,
        due_at: datetime | str | None = UNSET,
        delay_seconds: float | None = UNSET,
        due_local: datetime | str | None = UNSET,
        due_zone: str | None = UNSET,
        attempts_max: int | None = UNSET,
        run_seconds: float | None = UNSET,
        deadline_seconds: float | None = UNSET,
        assignee: str | None = UNSET,
        callbacks: Mapping[str, Any] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Enqueue a job."""
        return self._model(
            "POST",
            "/jobs",
            "jobs.enqueue",
            models.State,
            members={
                "kind": kind,
                "args": args,
                "uniq": uniq,
                "uniq_seconds": uniq_seconds,
                "on_conflict": on_conflict,
                "key": key,
                "queue": queue,
                "priority": priority,
                "due_at": due_at,
                "delay_seconds": delay_seconds,
                "due_local": due_local,
                "due_zone": due_zone,
                "attempts_max": attempts_max,
                "run_seconds": run_seconds,
                "deadline_seconds": deadline_seconds,
                "assignee": assignee,
                "callbacks": callbacks,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def extend(
        self, job_id: str | int, /, *, receipt: str, lease_seconds: float = UNSET, timeout_seconds: float | None = None
    ) -> models.Extended:
        """Extend the lease of a job."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/extend",
            "jobs.extend",
            models.Extended,
            members={"receipt": receipt, "lease_seconds": lease_seconds},
            timeout_seconds=timeout_seconds,
        )

    def fail(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        error: str | None = UNSET,
        dead: bool = UNSET,
        retry_seconds: float | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Fail the attempt of a job."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/fail",
            "jobs.fail",
            models.State,
            members={"receipt": receipt, "error": error, "dead": dead, "retry_seconds": retry_seconds},
            timeout_seconds=timeout_seconds,
        )

    def finish(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        result: Any = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Finish an assigned job."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/finish",
            "jobs.finish",
            models.State,
            members={"reason": reason, "result": result},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def get(
        self, job_id: str | int, /, *, wait_seconds: float = UNSET, timeout_seconds: float | None = None
    ) -> models.Job:
        """Get a job and its trail of acts."""
        return self._model(
            "GET",
            f"/jobs/{segment(job_id)}",
            "jobs.get",
            models.Job,
            query={"wait_seconds": wait_seconds},
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        state: str | None = UNSET,
        kind: str | None = UNSET,
        assignee: str | None = UNSET,
        pool: bool | None = UNSET,
        uniq: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Job]:
        """List jobs."""
        return self._pages(
            "GET",
            "/jobs",
            "jobs.list",
            models.Job,
            query={"state": state, "kind": kind, "assignee": assignee, "pool": pool, "uniq": uniq, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def progress(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        done: int,
        total: int | None = UNSET,
        note: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Progress:
        """Report the progress of a job."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/progress",
            "jobs.progress",
            models.Progress,
            members={"receipt": receipt, "done": done, "total": total, "note": note},
            timeout_seconds=timeout_seconds,
        )

    def release(
        self, job_id: str | int, /, *, receipt: str, reason: str | None = UNSET, timeout_seconds: float | None = None
    ) -> None:
        """Release a job."""
        self._none(
            "POST",
            f"/jobs/{segment(job_id)}/release",
            "jobs.release",
            members={"receipt": receipt, "reason": reason},
            timeout_seconds=timeout_seconds,
        )

    def resume(self, *, token: str, answer: Any = UNSET, timeout_seconds: float | None = None) -> models.State:
        """Resume a job that waits for a token."""
        return self._model(
            "POST",
            "/jobs/resume",
            "jobs.resume",
            models.State,
            members={"token": token, "answer": answer},
            timeout_seconds=timeout_seconds,
        )

    def retry(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Run a job now, or again."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/retry",
            "jobs.retry",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def send_back(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Send back a job in review."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/send-back",
            "jobs.send_back",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def snooze(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        seconds: float,
        token: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> None:
        """Postpone a job."""
        self._none(
            "POST",
            f"/jobs/{segment(job_id)}/snooze",
            "jobs.snooze",
            members={"receipt": receipt, "seconds": seconds, "token": token},
            timeout_seconds=timeout_seconds,
        )

    def statistics(self, *, days: int = UNSET, timeout_seconds: float | None = None) -> models.Statistics:
        """Count live jobs, and ended jobs by performer."""
        return self._model(
            "GET",
            "/jobs/statistics",
            "jobs.statistics",
            models.Statistics,
            query={"days": days},
            timeout_seconds=timeout_seconds,
        )

    def stats(
        self,
        kind: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get rates and times of a kind of jobs."""
        return self._model(
            "GET",
            f"/job-kinds/{segment(kind)}/stats",
            "jobs.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )

    def unassign(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Return a job to the pool."""
        return self._model(
            "POST",
            f"/jobs/{segment(job_id)}/unassign",
            "jobs.unassign",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncJobs(AsyncNoun):
    """Work for people and machines."""

    async def approve(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Approve a job in review."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/approve",
            "jobs.approve",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def assign(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        assignee: str | None = UNSET,
        due_at: datetime | str | None = UNSET,
        on_due: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Take a job of the pool, or assign it."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/assign",
            "jobs.assign",
            models.State,
            members={"reason": reason, "assignee": assignee, "due_at": due_at, "on_due": on_due},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def cancel(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Cancel a job."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/cancel",
            "jobs.cancel",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def claim(
        self,
        *,
        kinds: Sequence[str] | None = UNSET,
        queue: str = UNSET,
        max: int = UNSET,
        lease_seconds: float | None = UNSET,
        wait_seconds: float = UNSET,
        worker: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.Claimed]:
        """Claim jobs."""
        return await self._items(
            "POST",
            "/jobs/claim",
            "jobs.claim",
            models.Claimed,
            members={
                "kinds": kinds,
                "queue": queue,
                "max": max,
                "lease_seconds": lease_seconds,
                "wait_seconds": wait_seconds,
                "worker": worker,
            },
            timeout_seconds=timeout_seconds,
        )

    async def complete(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        result: Any = UNSET,
        events: Sequence[Mapping[str, Any]] = UNSET,
        jobs: Sequence[Mapping[str, Any]] = UNSET,
        note: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> None:
        """Complete a job with a result."""
        await self._none(
            "POST",
            f"/jobs/{segment(job_id)}/complete",
            "jobs.complete",
            members={"receipt": receipt, "result": result, "events": events, "jobs": jobs, "note": note},
            timeout_seconds=timeout_seconds,
        )

    async def decline(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Give up a job in review, or the caller's own job."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/decline",
            "jobs.decline",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def delay(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        due_at: datetime | str | None = UNSET,
        due_local: datetime | str | None = UNSET,
        due_zone: str | None = UNSET,
        to_pool: bool = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Delay a job to a date."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/delay",
            "jobs.delay",
            models.State,
            members={
                "reason": reason,
                "due_at": due_at,
                "due_local": due_local,
                "due_zone": due_zone,
                "to_pool": to_pool,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def enqueue(
        self,
        *,
        kind: str,
        args: Any = UNSET,
        uniq: str | None = UNSET,
        uniq_seconds: float | None = UNSET,
        on_conflict: str | None = UNSET,
        key: str | None = UNSET,
        queue: str | None = UNSET,
        priority: int | None = UNSET,
        due_at: datetime | str | None = UNSET,
        delay_seconds: float | None = UNSET,
        due_local: datetime | str | None = UNSET,
        due_zone: str | None = UNSET,
        attempts_max: int | None = UNSET,
        run_seconds: float | None = UNSET,
        deadline_seconds: float | None = UNSET,
        assignee: str | None = UNSET,
        callbacks: Mapping[str, Any] | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Enqueue a job."""
        return await self._model(
            "POST",
            "/jobs",
            "jobs.enqueue",
            models.State,
            members={
                "kind": kind,
                "args": args,
                "uniq": uniq,
                "uniq_seconds": uniq_seconds,
                "on_conflict": on_conflict,
                "key": key,
                "queue": queue,
                "priority": priority,
                "due_at": due_at,
                "delay_seconds": delay_seconds,
                "due_local": due_local,
                "due_zone": due_zone,
                "attempts_max": attempts_max,
                "run_seconds": run_seconds,
                "deadline_seconds": deadline_seconds,
                "assignee": assignee,
                "callbacks": callbacks,
            },
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def extend(
        self, job_id: str | int, /, *, receipt: str, lease_seconds: float = UNSET, timeout_seconds: float | None = None
    ) -> models.Extended:
        """Extend the lease of a job."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/extend",
            "jobs.extend",
            models.Extended,
            members={"receipt": receipt, "lease_seconds": lease_seconds},
            timeout_seconds=timeout_seconds,
        )

    async def fail(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        error: str | None = UNSET,
        dead: bool = UNSET,
        retry_seconds: float | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Fail the attempt of a job."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/fail",
            "jobs.fail",
            models.State,
            members={"receipt": receipt, "error": error, "dead": dead, "retry_seconds": retry_seconds},
            timeout_seconds=timeout_seconds,
        )

    async def finish(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        result: Any = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Finish an assigned job."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/finish",
            "jobs.finish",
            models.State,
            members={"reason": reason, "result": result},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def get(
        self, job_id: str | int, /, *, wait_seconds: float = UNSET, timeout_seconds: float | None = None
    ) -> models.Job:
        """Get a job and its trail of acts."""
        return await self._model(
            "GET",
            f"/jobs/{segment(job_id)}",
            "jobs.get",
            models.Job,
            query={"wait_seconds": wait_seconds},
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        state: str | None = UNSET,
        kind: str | None = UNSET,
        assignee: str | None = UNSET,
        pool: bool | None = UNSET,
        uniq: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Job]:
        """List jobs."""
        return self._pages(
            "GET",
            "/jobs",
            "jobs.list",
            models.Job,
            query={"state": state, "kind": kind, "assignee": assignee, "pool": pool, "uniq": uniq, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def progress(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        done: int,
        total: int | None = UNSET,
        note: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Progress:
        """Report the progress of a job."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/progress",
            "jobs.progress",
            models.Progress,
            members={"receipt": receipt, "done": done, "total": total, "note": note},
            timeout_seconds=timeout_seconds,
        )

    async def release(
        self, job_id: str | int, /, *, receipt: str, reason: str | None = UNSET, timeout_seconds: float | None = None
    ) -> None:
        """Release a job."""
        await self._none(
            "POST",
            f"/jobs/{segment(job_id)}/release",
            "jobs.release",
            members={"receipt": receipt, "reason": reason},
            timeout_seconds=timeout_seconds,
        )

    async def resume(self, *, token: str, answer: Any = UNSET, timeout_seconds: float | None = None) -> models.State:
        """Resume a job that waits for a token."""
        return await self._model(
            "POST",
            "/jobs/resume",
            "jobs.resume",
            models.State,
            members={"token": token, "answer": answer},
            timeout_seconds=timeout_seconds,
        )

    async def retry(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Run a job now, or again."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/retry",
            "jobs.retry",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def send_back(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Send back a job in review."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/send-back",
            "jobs.send_back",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def snooze(
        self,
        job_id: str | int,
        /,
        *,
        receipt: str,
        seconds: float,
        token: str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> None:
        """Postpone a job."""
        await self._none(
            "POST",
            f"/jobs/{segment(job_id)}/snooze",
            "jobs.snooze",
            members={"receipt": receipt, "seconds": seconds, "token": token},
            timeout_seconds=timeout_seconds,
        )

    async def statistics(self, *, days: int = UNSET, timeout_seconds: float | None = None) -> models.Statistics:
        """Count live jobs, and ended jobs by performer."""
        return await self._model(
            "GET",
            "/jobs/statistics",
            "jobs.statistics",
            models.Statistics,
            query={"days": days},
            timeout_seconds=timeout_seconds,
        )

    async def stats(
        self,
        kind: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get rates and times of a kind of jobs."""
        return await self._model(
            "GET",
            f"/job-kinds/{segment(kind)}/stats",
            "jobs.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )

    async def unassign(
        self,
        job_id: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> models.State:
        """Return a job to the pool."""
        return await self._model(
            "POST",
            f"/jobs/{segment(job_id)}/unassign",
            "jobs.unassign",
            models.State,
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Kinds(Noun):
    """Kinds of jobs."""

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.JobKind]:
        """List the settings of kinds of jobs."""
        return self._pages(
            "GET", "/job-kinds", "kinds.list", models.JobKind, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def pause(
        self,
        kind: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Stop handing out jobs of a kind."""
        self._none(
            "POST",
            f"/job-kinds/{segment(kind)}/pause",
            "kinds.pause",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def put(
        self,
        kind: str | int,
        /,
        *,
        automation: str | None = UNSET,
        machine_percent: int | None = UNSET,
        machine_rule: Mapping[str, Any] | None = UNSET,
        needs_review: bool | None = UNSET,
        reviewer_differs: bool | None = UNSET,
        escalate_to: str | None = UNSET,
        attempts_max: int | None = UNSET,
        run_seconds: float | None = UNSET,
        deadline_seconds: float | None = UNSET,
        lease_seconds: float | None = UNSET,
        backoff_seconds_min: float | None = UNSET,
        backoff_seconds_max: float | None = UNSET,
        doublings_max: int | None = UNSET,
        ageing_seconds: float | None = UNSET,
        running_max: int | None = UNSET,
        key_running_max: int | None = UNSET,
        key_rate_per_second: float | None = UNSET,
        key_burst: int | None = UNSET,
        events: Sequence[str] | None = UNSET,
        retention_days: int | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.JobKind:
        """Set the settings of a kind of jobs."""
        return self._model(
            "PUT",
            f"/job-kinds/{segment(kind)}",
            "kinds.put",
            models.JobKind,
            members={
                "automation": automation,
                "machine_percent": machine_percent,
                "machine_rule": machine_rule,
                "needs_review": needs_review,
                "reviewer_differs": reviewer_differs,
                "escalate_to": escalate_to,
                "attempts_max": attempts_max,
                "run_seconds": run_seconds,
                "deadline_seconds": deadline_seconds,
                "lease_seconds": lease_seconds,
                "backoff_seconds_min": backoff_seconds_min,
                "backoff_seconds_max": backoff_seconds_max,
                "doublings_max": doublings_max,
                "ageing_seconds": ageing_seconds,
                "running_max": running_max,
                "key_running_max": key_running_max,
                "key_rate_per_second": key_rate_per_second,
                "key_burst": key_burst,
                "events": events,
                "retention_days": retention_days,
            },
            timeout_seconds=timeout_seconds,
        )

    def resume(
        self,
        kind: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Hand out jobs of a kind again."""
        self._none(
            "POST",
            f"/job-kinds/{segment(kind)}/resume",
            "kinds.resume",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class AsyncKinds(AsyncNoun):
    """Kinds of jobs."""

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.JobKind]:
        """List the settings of kinds of jobs."""
        return self._pages(
            "GET", "/job-kinds", "kinds.list", models.JobKind, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    async def pause(
        self,
        kind: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Stop handing out jobs of a kind."""
        await self._none(
            "POST",
            f"/job-kinds/{segment(kind)}/pause",
            "kinds.pause",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def put(
        self,
        kind: str | int,
        /,
        *,
        automation: str | None = UNSET,
        machine_percent: int | None = UNSET,
        machine_rule: Mapping[str, Any] | None = UNSET,
        needs_review: bool | None = UNSET,
        reviewer_differs: bool | None = UNSET,
        escalate_to: str | None = UNSET,
        attempts_max: int | None = UNSET,
        run_seconds: float | None = UNSET,
        deadline_seconds: float | None = UNSET,
        lease_seconds: float | None = UNSET,
        backoff_seconds_min: float | None = UNSET,
        backoff_seconds_max: float | None = UNSET,
        doublings_max: int | None = UNSET,
        ageing_seconds: float | None = UNSET,
        running_max: int | None = UNSET,
        key_running_max: int | None = UNSET,
        key_rate_per_second: float | None = UNSET,
        key_burst: int | None = UNSET,
        events: Sequence[str] | None = UNSET,
        retention_days: int | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.JobKind:
        """Set the settings of a kind of jobs."""
        return await self._model(
            "PUT",
            f"/job-kinds/{segment(kind)}",
            "kinds.put",
            models.JobKind,
            members={
                "automation": automation,
                "machine_percent": machine_percent,
                "machine_rule": machine_rule,
                "needs_review": needs_review,
                "reviewer_differs": reviewer_differs,
                "escalate_to": escalate_to,
                "attempts_max": attempts_max,
                "run_seconds": run_seconds,
                "deadline_seconds": deadline_seconds,
                "lease_seconds": lease_seconds,
                "backoff_seconds_min": backoff_seconds_min,
                "backoff_seconds_max": backoff_seconds_max,
                "doublings_max": doublings_max,
                "ageing_seconds": ageing_seconds,
                "running_max": running_max,
                "key_running_max": key_running_max,
                "key_rate_per_second": key_rate_per_second,
                "key_burst": key_burst,
                "events": events,
                "retention_days": retention_days,
            },
            timeout_seconds=timeout_seconds,
        )

    async def resume(
        self,
        kind: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Hand out jobs of a kind again."""
        await self._none(
            "POST",
            f"/job-kinds/{segment(kind)}/resume",
            "kinds.resume",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )


class Schedules(Noun):
    """Jobs that are made by the clock."""

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Schedule]:
        """List schedules."""
        return self._pages(
            "GET",
            "/job-schedules",
            "schedules.list",
            models.Schedule,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def put(
        self,
        name: str | int,
        /,
        *,
        cron: str,
        job: Mapping[str, Any],
        zone: str = UNSET,
        missed: str = UNSET,
        is_paused: bool = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Schedule:
        """Set a schedule."""
        return self._model(
            "PUT",
            f"/job-schedules/{segment(name)}",
            "schedules.put",
            models.Schedule,
            members={"cron": cron, "job": job, "zone": zone, "missed": missed, "is_paused": is_paused},
            timeout_seconds=timeout_seconds,
        )

    def remove(self, name: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Remove a schedule."""
        self._none("DELETE", f"/job-schedules/{segment(name)}", "schedules.remove", timeout_seconds=timeout_seconds)


class AsyncSchedules(AsyncNoun):
    """Jobs that are made by the clock."""

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Schedule]:
        """List schedules."""
        return self._pages(
            "GET",
            "/job-schedules",
            "schedules.list",
            models.Schedule,
            query={"limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def put(
        self,
        name: str | int,
        /,
        *,
        cron: str,
        job: Mapping[str, Any],
        zone: str = UNSET,
        missed: str = UNSET,
        is_paused: bool = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Schedule:
        """Set a schedule."""
        return await self._model(
            "PUT",
            f"/job-schedules/{segment(name)}",
            "schedules.put",
            models.Schedule,
            members={"cron": cron, "job": job, "zone": zone, "missed": missed, "is_paused": is_paused},
            timeout_seconds=timeout_seconds,
        )

    async def remove(self, name: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Remove a schedule."""
        await self._none(
            "DELETE", f"/job-schedules/{segment(name)}", "schedules.remove", timeout_seconds=timeout_seconds
        )


class Services(Noun):
    """Request and reply: services and their workers."""

    def call(
        self,
        name: str | int,
        /,
        body: bytes = b"",
        *,
        prefer: str | None = UNSET,
        expiry_seconds: float | None = UNSET,
        content_type: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Content:
        """Call a service."""
        return self._content(
            "POST",
            f"/services/{segment(name)}",
            "services.call",
            headers={"prefer": prefer, "Hookwire-Expiry-Seconds": expiry_seconds},
            body=body,
            content_type=content_type,
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def claim(
        self,
        name: str | int,
        /,
        *,
        max: int = UNSET,
        lease_seconds: float | None = UNSET,
        wait_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.HeldRequest]:
        """Claim requests to work on."""
        return self._items(
            "POST",
            f"/services/{segment(name)}/claim",
            "services.claim",
            models.HeldRequest,
            members={"max": max, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds},
            timeout_seconds=timeout_seconds,
        )

    def disable(
        self,
        name: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Disable a service."""
        self._none(
            "POST",
            f"/services/{segment(name)}/disable",
            "services.disable",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def enable(
        self,
        name: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Enable a service."""
        self._none(
            "POST",
            f"/services/{segment(name)}/enable",
            "services.enable",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    def get(self, name: str | int, /, *, timeout_seconds: float | None = None) -> models.Service:
        """A service."""
        return self._model(
            "GET", f"/services/{segment(name)}", "services.get", models.Service, timeout_seconds=timeout_seconds
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> Iterator[models.Service]:
        """List services."""
        return self._pages(
            "GET", "/services", "services.list", models.Service, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    def put(
        self,
        name: str | int,
        /,
        *,
        lease_seconds: float = UNSET,
        tries_max: int = UNSET,
        idempotent: bool = UNSET,
        expiry_seconds: float = UNSET,
        retention_seconds: float = UNSET,
        concurrency_max: int | None = UNSET,
        without_workers: str = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Service:
        """Set a service's settings."""
        return self._model(
            "PUT",
            f"/services/{segment(name)}",
            "services.put",
            models.Service,
            members={
                "lease_seconds": lease_seconds,
                "tries_max": tries_max,
                "idempotent": idempotent,
                "expiry_seconds": expiry_seconds,
                "retention_seconds": retention_seconds,
                "concurrency_max": concurrency_max,
                "without_workers": without_workers,
            },
            timeout_seconds=timeout_seconds,
        )

    def stats(
        self,
        name: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get a service's rates and times."""
        return self._model(
            "GET",
            f"/services/{segment(name)}/stats",
            "services.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )


class AsyncServices(AsyncNoun):
    """Request and reply: services and their workers."""

    async def call(
        self,
        name: str | int,
        /,
        body: bytes = b"",
        *,
        prefer: str | None = UNSET,
        expiry_seconds: float | None = UNSET,
        content_type: str | None = None,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Content:
        """Call a service."""
        return await self._content(
            "POST",
            f"/services/{segment(name)}",
            "services.call",
            headers={"prefer": prefer, "Hookwire-Expiry-Seconds": expiry_seconds},
            body=body,
            content_type=content_type,
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def claim(
        self,
        name: str | int,
        /,
        *,
        max: int = UNSET,
        lease_seconds: float | None = UNSET,
        wait_seconds: float = UNSET,
        timeout_seconds: float | None = None,
    ) -> Listed[models.HeldRequest]:
        """Claim requests to work on."""
        return await self._items(
            "POST",
            f"/services/{segment(name)}/claim",
            "services.claim",
            models.HeldRequest,
            members={"max": max, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds},
            timeout_seconds=timeout_seconds,
        )

    async def disable(
        self,
        name: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Disable a service."""
        await self._none(
            "POST",
            f"/services/{segment(name)}/disable",
            "services.disable",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def enable(
        self,
        name: str | int,
        /,
        *,
        reason: str | None = UNSET,
        idempotency_key: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Enable a service."""
        await self._none(
            "POST",
            f"/services/{segment(name)}/enable",
            "services.enable",
            members={"reason": reason},
            idempotency_key=idempotency_key,
            is_keyed=True,
            timeout_seconds=timeout_seconds,
        )

    async def get(self, name: str | int, /, *, timeout_seconds: float | None = None) -> models.Service:
        """A service."""
        return await self._model(
            "GET", f"/services/{segment(name)}", "services.get", models.Service, timeout_seconds=timeout_seconds
        )

    def list(self, *, limit: int = UNSET, timeout_seconds: float | None = None) -> AsyncIterator[models.Service]:
        """List services."""
        return self._pages(
            "GET", "/services", "services.list", models.Service, query={"limit": limit}, timeout_seconds=timeout_seconds
        )

    async def put(
        self,
        name: str | int,
        /,
        *,
        lease_seconds: float = UNSET,
        tries_max: int = UNSET,
        idempotent: bool = UNSET,
        expiry_seconds: float = UNSET,
        retention_seconds: float = UNSET,
        concurrency_max: int | None = UNSET,
        without_workers: str = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.Service:
        """Set a service's settings."""
        return await self._model(
            "PUT",
            f"/services/{segment(name)}",
            "services.put",
            models.Service,
            members={
                "lease_seconds": lease_seconds,
                "tries_max": tries_max,
                "idempotent": idempotent,
                "expiry_seconds": expiry_seconds,
                "retention_seconds": retention_seconds,
                "concurrency_max": concurrency_max,
                "without_workers": without_workers,
            },
            timeout_seconds=timeout_seconds,
        )

    async def stats(
        self,
        name: str | int,
        /,
        *,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        timeout_seconds: float | None = None,
    ) -> models.WorkStats:
        """Get a service's rates and times."""
        return await self._model(
            "GET",
            f"/services/{segment(name)}/stats",
            "services.stats",
            models.WorkStats,
            query={"since": since, "until": until},
            timeout_seconds=timeout_seconds,
        )


class Requests(Noun):
    """Requests to services, and their replies."""

    def close(self, request_id: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Close a request."""
        self._none("DELETE", f"/requests/{segment(request_id)}", "requests.close", timeout_seconds=timeout_seconds)

    def get(
        self, request_id: str | int, /, *, prefer: str | None = UNSET, timeout_seconds: float | None = None
    ) -> Content:
        """The reply to a request."""
        return self._content(
            "GET",
            f"/requests/{segment(request_id)}",
            "requests.get",
            headers={"prefer": prefer},
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        service: str | None = UNSET,
        state: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Request]:
        """List requests."""
        return self._pages(
            "GET",
            "/requests",
            "requests.list",
            models.Request,
            query={"service": service, "state": state, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    def reply(
        self,
        request_id: str | int,
        /,
        body: bytes = b"",
        *,
        receipt: str,
        content_type: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Answer a request."""
        self._none(
            "POST",
            f"/requests/{segment(request_id)}/reply",
            "requests.reply",
            headers={"Hookwire-Receipt": receipt},
            body=body,
            content_type=content_type,
            timeout_seconds=timeout_seconds,
        )


class AsyncRequests(AsyncNoun):
    """Requests to services, and their replies."""

    async def close(self, request_id: str | int, /, *, timeout_seconds: float | None = None) -> None:
        """Close a request."""
        await self._none(
            "DELETE", f"/requests/{segment(request_id)}", "requests.close", timeout_seconds=timeout_seconds
        )

    async def get(
        self, request_id: str | int, /, *, prefer: str | None = UNSET, timeout_seconds: float | None = None
    ) -> Content:
        """The reply to a request."""
        return await self._content(
            "GET",
            f"/requests/{segment(request_id)}",
            "requests.get",
            headers={"prefer": prefer},
            timeout_seconds=timeout_seconds,
        )

    def list(
        self,
        *,
        service: str | None = UNSET,
        state: str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Request]:
        """List requests."""
        return self._pages(
            "GET",
            "/requests",
            "requests.list",
            models.Request,
            query={"service": service, "state": state, "limit": limit},
            timeout_seconds=timeout_seconds,
        )

    async def reply(
        self,
        request_id: str | int,
        /,
        body: bytes = b"",
        *,
        receipt: str,
        content_type: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Answer a request."""
        await self._none(
            "POST",
            f"/requests/{segment(request_id)}/reply",
            "requests.reply",
            headers={"Hookwire-Receipt": receipt},
            body=body,
            content_type=content_type,
            timeout_seconds=timeout_seconds,
        )


class Audit(Noun):
    """Acts of operators."""

    def list(
        self,
        *,
        actor: str | None = UNSET,
        action: str | None = UNSET,
        subject: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> Iterator[models.Audit]:
        """List audit entries."""
        return self._pages(
            "GET",
            "/audit",
            "audit.list",
            models.Audit,
            query={
                "actor": actor,
                "action": action,
                "subject": subject,
                "since": since,
                "until": until,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )


class AsyncAudit(AsyncNoun):
    """Acts of operators."""

    def list(
        self,
        *,
        actor: str | None = UNSET,
        action: str | None = UNSET,
        subject: str | None = UNSET,
        since: datetime | str | None = UNSET,
        until: datetime | str | None = UNSET,
        limit: int = UNSET,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[models.Audit]:
        """List audit entries."""
        return self._pages(
            "GET",
            "/audit",
            "audit.list",
            models.Audit,
            query={
                "actor": actor,
                "action": action,
                "subject": subject,
                "since": since,
                "until": until,
                "limit": limit,
            },
            timeout_seconds=timeout_seconds,
        )


class Nouns:
    """The nouns of a client, for threads."""

    def __init__(self, runner: Runner) -> None:
        self.events = Events(runner)
        self.subscriptions = Subscriptions(runner)
        self.signing_keys = SigningKeys(runner)
        self.topics = Topics(runner)
        self.deliveries = Deliveries(runner)
        self.undelivered = Undelivered(runner)
        self.dead_letters = DeadLetters(runner)
        self.replays = Replays(runner)
        self.incidents = Incidents(runner)
        self.holds = Holds(runner)
        self.sinks = Sinks(runner)
        self.sources = Sources(runner)
        self.erasures = Erasures(runner)
        self.upstreams = Upstreams(runner)
        self.keys = Keys(runner)
        self.queues = Queues(runner)
        self.tasks = Tasks(runner)
        self.jobs = Jobs(runner)
        self.kinds = Kinds(runner)
        self.schedules = Schedules(runner)
        self.services = Services(runner)
        self.requests = Requests(runner)
        self.audit = Audit(runner)


class AsyncNouns:
    """The nouns of a client, for tasks."""

    def __init__(self, runner: AsyncRunner) -> None:
        self.events = AsyncEvents(runner)
        self.subscriptions = AsyncSubscriptions(runner)
        self.signing_keys = AsyncSigningKeys(runner)
        self.topics = AsyncTopics(runner)
        self.deliveries = AsyncDeliveries(runner)
        self.undelivered = AsyncUndelivered(runner)
        self.dead_letters = AsyncDeadLetters(runner)
        self.replays = AsyncReplays(runner)
        self.incidents = AsyncIncidents(runner)
        self.holds = AsyncHolds(runner)
        self.sinks = AsyncSinks(runner)
        self.sources = AsyncSources(runner)
        self.erasures = AsyncErasures(runner)
        self.upstreams = AsyncUpstreams(runner)
        self.keys = AsyncKeys(runner)
        self.queues = AsyncQueues(runner)
        self.tasks = AsyncTasks(runner)
        self.jobs = AsyncJobs(runner)
        self.kinds = AsyncKinds(runner)
        self.schedules = AsyncSchedules(runner)
        self.services = AsyncServices(runner)
        self.requests = AsyncRequests(runner)
        self.audit = AsyncAudit(runner)
