"""Search: which pages one text may mean. An id names its page; a name is looked up, each kind by its index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from app.web.console.cells import address

__all__ = ["NAMED", "host_in", "page_of_id"]

_PREFIXES: Final = {
    "evt_": "events", "sub_": "subscriptions", "hold_": "holds", "replay_": "replays", "dead_": "dead-letters",
    "refusal_": "refusals", "inc_": "incidents",
}  # fmt: skip
_JOB: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HOST: Final = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63}){0,20}\.?")
NAMED: Final[Sequence[tuple[str, str, str]]] = (
    ("topics", "Topic", "/topics/{}/settings"), ("queues", "Queue", "/queues/{}"),
    ("services", "Service", "/services/{}"),
)  # fmt: skip
"""The pages of things with a name: kind, title, and the path of the API that finds one."""


def page_of_id(text: str) -> str | None:
    """Return the address of the page that an id names; None where the text is no id."""
    if text.startswith("dlv_"):
        return address("deliveries", text)
    if text.startswith("key_"):
        return "keys"
    if _JOB.fullmatch(text):
        return address("jobs", text.lower())
    return next((address(kind, text) for prefix, kind in _PREFIXES.items() if text.startswith(prefix)), None)


def host_in(text: str) -> str | None:
    """Return the host that a text names, alone, with a port or in a URL; None where it names none.

    It may be an international name, and have a final dot.
    """
    try:
        found = urlsplit(text if "://" in text else f"//{text}").hostname or ""
    except ValueError:
        return None
    if ":" in found:
        return f"[{found}]"
    return found if _HOST.fullmatch(found) else None
