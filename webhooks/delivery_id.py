"""The public id of a delivery: ``dlv_<event>_<subscription>``, the numbers of both rows."""

from __future__ import annotations

import re

__all__ = ["format_delivery_id", "parse_delivery_id"]

_DELIVERY_ID = re.compile(r"dlv_([0-9]{1,19})_([0-9]{1,19})")
_LARGEST = 2**63 - 1  # a PostgreSQL bigint


def format_delivery_id(event_id: int, subscription_id: int) -> str:
    """Return the public id of the delivery of an event to a subscription, by the numbers of their rows."""
    return f"dlv_{event_id}_{subscription_id}"


def parse_delivery_id(text: str) -> tuple[int, int] | None:
    """Return the numbers of event and subscription; None for a text that names no delivery."""
    match = _DELIVERY_ID.fullmatch(text)
    if match is None:
        return None
    event_id, subscription_id = int(match[1]), int(match[2])
    return None if max(event_id, subscription_id) > _LARGEST else (event_id, subscription_id)
