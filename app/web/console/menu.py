"""The menu of the console: the name of each list in its address, and its title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["MENU", "TITLES"]

TITLES: Final[Mapping[str, str]] = {
    "events": "Events", "topics": "Topics", "subscriptions": "Subscriptions", "deliveries": "Deliveries",
    "undelivered": "Undelivered", "incidents": "Incidents", "dead-letters": "Dead letters", "holds": "Holds",
    "replays": "Replays", "queues": "Queues", "tasks": "Tasks", "jobs": "Jobs", "my-work": "My work", "pool": "Pool",
    "review": "Review", "services": "Services",
    "requests": "Requests", "sinks": "Sinks", "sources": "Sources", "refusals": "Refused records",
    "upstreams": "Upstreams", "keys": "API keys", "audit": "Audit",
}  # fmt: skip
MENU: Final = (("../console", "Status"), *TITLES.items())
