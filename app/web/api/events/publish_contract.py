"""The OpenAPI part of publishing, which is no FastAPI route (``app.web.publishing.ingest``) and so is written here."""

from __future__ import annotations

from typing import Any

from app.web.api.route.refusals import refusals

__all__ = ["PUBLISH_PATHS", "PUBLISH_SCHEMAS"]

_ACCEPTED = {
    "id": "evt_k3v7q2ha_42",
    "topic": "orders.created",
    "key": "customer-17",
    "sequence": 42,
    "accepted_at": "2026-01-15T09:31:07.120455Z",
}

PUBLISH_SCHEMAS: dict[str, Any] = {
    "Accepted": {
        "type": "object",
        "title": "Accepted",
        "description": "A stored event. Its transaction has been committed.",
        "required": ["id", "topic", "key", "sequence", "accepted_at"],
        "properties": {
            "id": {"type": "string", "description": "Opaque; the `webhook-id` of its deliveries."},
            "topic": {"type": "string"},
            "key": {"type": ["string", "null"], "description": "The ordering key."},
            "sequence": {
                "type": ["integer", "null"],
                "description": "Rises per key, with gaps; null where the topic keeps no order.",
            },
            "accepted_at": {"type": "string", "format": "date-time"},
            "matched": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "maxItems": 100,
                "description": "With `matched=true`: the matching subscriptions, the oldest 100. null: the event is "
                "stored, but the matches could not be read now.",
            },
        },
        "examples": [_ACCEPTED],
    },
    "Refused": {
        "type": "object",
        "title": "Refused",
        "description": "In the answer to a partial batch: the item of an event that was not stored, with the reason. "
        "Its type is `/problems/line-refused`; send only this line again.",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["type", "title", "status", "detail"],
                "properties": {
                    "type": {"type": "string", "format": "uri-reference"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                    "detail": {"type": "string"},
                },
            }
        },
    },
}

_REFUSED = refusals(
    "body-too-large", "unsupported-media-type", "malformed-batch", "invalid-cloudevent", "invalid-key", "invalid-topic",
    "unknown-topic", "invalid-header", "invalid-parameter", "duplicate-parameter", "idempotency-key-reused",
    "idempotency-key-in-flight", "request-timeout", "too-many-requests", "busy", "database-unavailable",
    "outcome-unknown", "shutting-down",
)  # fmt: skip

_PARAMETERS: list[dict[str, Any]] = [
    {
        "name": "topic",
        "in": "path",
        "required": True,
        "description": "1-249 characters of `A-Z a-z 0-9 . _ -` in dot-separated words.",
        "schema": {"type": "string", "maxLength": 249, "pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"},
        "example": "orders.created",
    },
    {
        "name": "key",
        "in": "query",
        "description": "The ordering key, for senders that cannot set headers. Not together with `Hookwire-Key`.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 1024},
    },
    {
        "name": "partial",
        "in": "query",
        "description": "`application/x-ndjson` only. true: all other lines are stored if some cannot be; each refused "
        "line has an `error` in its place in the answer.",
        "schema": {"type": "boolean", "default": False},
    },
    {
        "name": "matched",
        "in": "query",
        "description": "true: the answer names the matching subscriptions. Not for a batch.",
        "schema": {"type": "boolean", "default": False},
    },
    {
        "name": "ignore",
        "in": "query",
        "description": "Names, comma separated, of foreign parameters that the sender adds to every URL. Any other "
        "unknown parameter is refused.",
        "schema": {"type": "string"},
        "example": "bodySHA256",
    },
    {
        "name": "Hookwire-Key",
        "in": "header",
        "description": "The ordering key: events of one topic with the same key arrive in the order of their commits. "
        "1-1024 bytes of UTF-8.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 1024},
        "example": "customer-17",
    },
    {
        "name": "Hookwire-Ttl",
        "in": "header",
        "description": "Seconds in which webhooks get the event; after that its deliveries become dead letters.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 31_536_000},
        "example": 3600,
    },
    {
        "name": "Hookwire-Retry",
        "in": "header",
        "description": "`never`: each webhook is tried once.",
        "schema": {"type": "string", "enum": ["never"]},
    },
    {
        "name": "Hookwire-Tombstone",
        "in": "header",
        "description": "`true`: the event has no value, and deletes its key's. It has a key and an empty body. On "
        "Kafka its record has a null value.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    {
        "name": "Hookwire-Header-{name}",
        "in": "header",
        "description": "A header of the publisher's own, which travels as `{name}` to every sink. At most 64 of them, "
        "16 KiB in all.",
        "schema": {"type": "string"},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Makes repeats safe. The same key with the same request answers with the first event's id and "
        "`Idempotency-Replayed: true`. With another request it is refused by 422. Remembered for a day by default.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    {
        "name": "traceparent",
        "in": "header",
        "description": "W3C trace context, carried to every sink.",
        "schema": {"type": "string"},
    },
    {
        "name": "Hookwire-Replay-Of",
        "in": "header",
        "description": "The id of the event that this one repeats; carried to every sink as `replay-of`.",
        "schema": {"type": "string", "maxLength": 512},
    },
]

_BODY: dict[str, Any] = {
    "description": "The event, byte for byte; any type, also empty. `application/x-ndjson` makes one event of each "
    "line, `application/cloudevents-batch+json` one of each element. Such a batch is stored whole or not at all, and "
    "holds at most 1,000 events. CloudEvents in binary mode (`ce-*` headers) and structured mode are recognised.",
    "content": {
        "application/json": {
            "schema": {"description": "Any JSON; stored as the bytes that were sent."},
            "examples": {"order": {"value": {"order": 4711, "total": "19.90"}}},
        },
    },
    "x-other-content-types": {
        "application/x-ndjson": "Each line is an event.",
        "application/cloudevents+json": "A CloudEvent in structured mode.",
        "application/cloudevents-batch+json": "CloudEvents, each of them an event.",
        "*/*": "Any other content is an event, byte for byte.",
    },
}

_HEADERS: dict[str, Any] = {
    "Location": {"description": "The event, `/events/{id}`. Not for a batch.", "schema": {"type": "string"}},
    "Idempotency-Replayed": {
        "description": "`true` when the events had been stored by an earlier request.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Hookwire-Notice": {
        "description": "The event has no receiver: the topic goes to no configured broker and matches no subscription.",
        "schema": {"type": "string"},
    },
}

PUBLISH_PATHS: dict[str, Any] = {
    "/topics/{topic}/events": {
        "post": {
            "tags": ["events"],
            "operationId": "events_publish",
            "summary": "Publish an event, or a batch",
            "description": "The answer comes after COMMIT: an event answered with 202 is never lost. An unknown topic "
            "is created, unless a setting forbids that.",
            "parameters": _PARAMETERS,
            "requestBody": _BODY,
            "responses": {
                "202": {
                    "description": "Stored. One object for an event, a list in the same order for a batch.",
                    "headers": _HEADERS,
                    "content": {
                        "application/json": {
                            "schema": {
                                "oneOf": [
                                    {"$ref": "#/components/schemas/Accepted"},
                                    {
                                        "type": "array",
                                        "items": {
                                            "oneOf": [
                                                {"$ref": "#/components/schemas/Accepted"},
                                                {"$ref": "#/components/schemas/Refused"},
                                            ]
                                        },
                                    },
                                ]
                            },
                            "examples": {"event": {"value": _ACCEPTED}, "batch": {"value": [_ACCEPTED]}},
                        }
                    },
                },
                **{str(status): response for status, response in _REFUSED.items()},
            },
        }
    }
}
