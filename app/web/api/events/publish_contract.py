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
    "BatchEvent": {
        "type": "object",
        "title": "BatchEvent",
        "description": "One event of a batch, with all that a request with this event alone would say.",
        "properties": {
            "key": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "The ordering key."},
            "idempotency_key": {
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "description": "Makes repeats of this event safe, in any batch or alone.",
            },
            "content_type": {"type": "string", "maxLength": 255, "description": "`application/json` if left out."},
            "headers": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "The publisher's own headers, `ce-*` attributes, `hookwire-ttl`, `hookwire-retry`, "
                "`hookwire-tombstone`.",
            },
            "data": {"description": "Any JSON, kept as it is written; a text where `content_type` is not JSON."},
            "data_base64": {"type": "string", "description": "Any other body, in base64."},
        },
        "additionalProperties": False,
    },
    "BatchItem": {
        "type": "object",
        "title": "BatchItem",
        "description": "What became of one event of a batch: the members of `Accepted`, or `error`.",
        "properties": {
            "outcome": {
                "type": "string",
                "enum": ["stored", "replayed", "conflict", "unknown", "error"],
                "description": "Where each event is stored by itself. `replayed`: an earlier request stored it. "
                "`conflict`: its idempotency key belongs to another event. `unknown`: repeat it with the same "
                "idempotency key.",
            },
            "id": {"type": "string"},
            "topic": {"type": "string"},
            "key": {"type": ["string", "null"]},
            "sequence": {"type": ["integer", "null"]},
            "accepted_at": {"type": "string", "format": "date-time"},
            "error": {"$ref": "#/components/schemas/BatchError"},
        },
    },
    "BatchError": {
        "type": "object",
        "title": "BatchError",
        "description": "Why an event of a batch was not stored. With the type `/problems/line-refused`, correct this "
        "event and send it alone.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
    },
}

_REFUSED = refusals(
    "body-too-large", "unsupported-media-type", "malformed-batch", "invalid-cloudevent", "invalid-key", "invalid-topic",
    "unknown-topic", "too-many-names", "invalid-header", "invalid-parameter", "duplicate-parameter",
    "idempotency-key-reused", "idempotency-key-in-flight", "request-timeout", "too-many-requests", "busy",
    "database-unavailable", "outcome-unknown", "shutting-down",
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
        "name": "matched",
        "in": "query",
        "description": "true: the answer names the matching subscriptions.",
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
    "description": "The event, byte for byte; any type, also empty. CloudEvents in binary mode (`ce-*` headers) and in "
    "structured mode are recognised. `Hookwire-Header-<name>` is a header of the publisher's own, sent as `<name>` to "
    "every sink: at most 64 of them, 16 KiB in all. Batches have a path of their own, `/topics/{topic}/batch`.",
    "content": {
        "application/json": {
            "schema": {"description": "Any JSON; stored as the bytes that were sent."},
            "examples": {"order": {"value": {"order": 4711, "total": "19.90"}}},
        },
    },
    "x-other-content-types": {
        "application/cloudevents+json": "A CloudEvent in structured mode.",
        "*/*": "Any other content is an event, byte for byte.",
    },
}

_BATCH_BODY: dict[str, Any] = {
    "required": True,
    "description": "At most 1,000 events. Of a list, and of `application/vnd.hookwire.events+ndjson`, each event is "
    "stored or not by itself, those of one key in their order. The other types are stored whole or not at all.",
    "content": {
        "application/json": {
            "schema": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/BatchEvent"}},
            "examples": {
                "orders": {"value": [{"key": "ada", "idempotency_key": "order-1", "data": {"order": 1}}]},
            },
        },
    },
    "x-other-content-types": {
        "application/vnd.hookwire.events+ndjson": "Each line is a `BatchEvent`.",
        "application/x-ndjson": "Each line is an event.",
        "application/cloudevents-batch+json": "CloudEvents, each of them an event.",
    },
}
_BATCH_PARAMETERS: list[dict[str, Any]] = [
    *(parameter for parameter in _PARAMETERS if parameter["name"] not in ("matched", "Hookwire-Tombstone")),
    {
        "name": "partial",
        "in": "query",
        "description": "`application/x-ndjson` only. true: all other lines are stored if some cannot be; each refused "
        "line has an `error` in its place in the answer.",
        "schema": {"type": "boolean", "default": False},
    },
]

_HEADERS: dict[str, Any] = {
    "Location": {"description": "The event, `/events/{id}`.", "schema": {"type": "string"}},
    "Idempotency-Replayed": {
        "description": "`true` when the events had been stored by an earlier request.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Hookwire-Notice": {
        "description": "The event has no receiver: the topic goes to no configured broker and matches no subscription. "
        "Or it was stored without something that was sent: the notice names it.",
        "schema": {"type": "string"},
    },
}

_BATCH_HEADERS = {name: header for name, header in _HEADERS.items() if name != "Location"}
_BATCH_ANSWER: dict[str, Any] = {
    "headers": _BATCH_HEADERS,
    "content": {
        "application/json": {
            "schema": {"type": "array", "items": {"$ref": "#/components/schemas/BatchItem"}},
            "examples": {"batch": {"value": [{"outcome": "stored", **_ACCEPTED}]}},
        }
    },
}

PUBLISH_PATHS: dict[str, Any] = {
    "/topics/{topic}/events": {
        "post": {
            "tags": ["events"],
            "operationId": "events_publish",
            "summary": "Publish an event",
            "description": "The answer comes after COMMIT: an event answered with 202 is never lost. An unknown topic "
            "is created, unless a setting forbids that.",
            "parameters": _PARAMETERS,
            "requestBody": _BODY,
            "responses": {
                "202": {
                    "description": "Stored.",
                    "headers": _HEADERS,
                    "content": {
                        "application/json": {
                            "schema": {"$ref": "#/components/schemas/Accepted"},
                            "examples": {"event": {"value": _ACCEPTED}},
                        }
                    },
                },
                **{str(status): response for status, response in _REFUSED.items()},
            },
        }
    },
    "/topics/{topic}/batch": {
        "post": {
            "tags": ["events"],
            "operationId": "events_publish_batch",
            "summary": "Publish many events",
            "description": "The answer comes after COMMIT, with an item for each event, in their order.",
            "parameters": _BATCH_PARAMETERS,
            "requestBody": _BATCH_BODY,
            "responses": {
                "202": {"description": "All are stored.", **_BATCH_ANSWER},
                "207": {
                    "description": "Some are not stored. Each event is stored by itself, and its item says so.",
                    **_BATCH_ANSWER,
                },
                **{str(status): response for status, response in _REFUSED.items()},
            },
        }
    },
}
