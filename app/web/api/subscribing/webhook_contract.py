"""The OpenAPI part of the hub's own requests: one event, POSTed to a callback (Standard Webhooks)."""

from __future__ import annotations

from typing import Any

__all__ = ["WEBHOOKS"]


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "description": description, "schema": {"type": "string"}}


WEBHOOKS: dict[str, Any] = {
    "event": {
        "post": {
            "tags": ["deliveries"],
            "operationId": "webhooks_event",
            "summary": "An event arrives at a callback",
            "description": "The body is the event as it was published, in the format of the subscription. Any 2xx "
            "answer means delivered; any other answer is retried by the schedule.",
            "parameters": [
                _header(
                    "webhook-id", "The event's id, the same at each attempt: a receiver recognises a repeat by it."
                ),
                _header("webhook-timestamp", "When this attempt was made, in seconds since 1970."),
                _header("webhook-signature", "`v1,` and an HMAC-SHA256 of id, timestamp and body in base64."),
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"description": "The content of the event."}}},
            },
            "security": [],
            "responses": {
                "2XX": {"description": "The event has arrived."},
                "410": {"description": "The callback wants no more events, and its subscription ends."},
            },
        }
    }
}
