"""ReceivedEvent: an event as a receiver or a pull client gets it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["ReceivedEvent"]


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event.

    ``id`` is the same for each repetition. ``sequence`` rises for each key; None: its topic keeps no order. ``body`` is
    as it was published. ``headers`` have lower-case names. ``is_replay``: somebody asked for it again. ``attempts``
    counts how often it was handed out, where that is known.
    """

    id: str
    topic: str
    key: str | None = None
    sequence: int | None = None
    accepted_at: datetime | None = None
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    is_replay: bool = False
    attempts: int = 1

    @property
    def data(self) -> Any:
        """Return the value of JSON, the text of ``text/*``, and else the body; None for an empty body.

        Raise ValueError for a body that is not what its content type says.
        """
        if not self.body:
            return None
        media_type = (self.content_type or "").partition(";")[0].strip().lower()
        subtype = media_type.partition("/")[2]
        if subtype == "json" or subtype.endswith("+json"):
            return json.loads(self.body)
        return self.body.decode() if media_type.startswith("text/") else self.body
