"""A row of deliveries in its public shape."""

from __future__ import annotations

from typing import Any

from db.pool import Row
from event.identity import format_event_id
from webhooks.condition import delivery_condition
from webhooks.delivery_id import format_delivery_id

__all__ = ["delivery_out"]


def delivery_out(row: Row, incarnation: str) -> dict[str, Any]:
    """Return the public shape of a row of ``delivery.list``."""
    return {
        **row,
        **delivery_condition(row)._asdict(),
        "detail": ": ".join(filter(None, (row["kind"], row["detail"]))) or None,
        "id": format_delivery_id(row["event_id"], row["subscription_id"]),
        "event_id": format_event_id(incarnation, row["event_id"]),
        "subscription_id": row["public_id"],
    }
