"""The contract of ``POST /in/{source}``, which :mod:`app.web.publishing.inbound` serves."""

from __future__ import annotations

from typing import Any, Final

from app.web.api.route.refusals import refusals

__all__ = ["INBOUND_OPERATION", "INBOUND_PATH", "INBOUND_SCHEMAS"]

INBOUND_PATH: Final = "/in/{source}"
_TAKEN: dict[str, Any] = {"id": "evt_k3v7q2ha_42", "topic": "github.push", "replayed": False}
_REFUSED = refusals(
    "signature-refused", "bad-request", "too-many-requests", "body-too-large", "unsupported-media-type",
    "idempotency-key-reused", "idempotency-key-in-flight", "too-many-names", "unknown-topic", "busy",
    "database-unavailable", "secret-unreadable", "outcome-unknown",
)  # fmt: skip

INBOUND_SCHEMAS: dict[str, Any] = {
    "InboundTaken": {
        "type": "object",
        "title": "InboundTaken",
        "description": "The event of a webhook.",
        "required": ["id", "topic", "replayed"],
        "properties": {
            "id": {"type": "string"},
            "topic": {"type": "string"},
            "replayed": {"type": "boolean", "description": "true: this delivery had been stored before."},
        },
        "examples": [_TAKEN],
    }
}
INBOUND_OPERATION: dict[str, Any] = {
    "tags": ["sources"],
    "operationId": "inbound_receive",
    "summary": "Take a webhook of another sender",
    "description": "For the sender of an inbound source, which signs in its own way. The signature is the credential: "
    "no key is needed, and no name of a source is told. The answer comes after COMMIT. Handshakes are answered as "
    "text, without an event.",
    "parameters": [
        {
            "name": "source",
            "in": "path",
            "required": True,
            "description": "The inbound source.",
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "examples": ["github"]},
        }
    ],
    "requestBody": {
        "required": True,
        "description": "Whatever the sender sends; it becomes the event, byte for byte.",
        "content": {"*/*": {"schema": {"description": "The body that is signed."}}},
    },
    "responses": {
        "200": {
            "description": "Stored, or a handshake.",
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/InboundTaken"},
                    "examples": {"event": {"value": _TAKEN}},
                }
            },
        },
        **{str(status): response for status, response in _REFUSED.items()},
    },
}
