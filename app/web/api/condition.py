"""The fields by which an answer says why something is as it is, the same everywhere (FT-04)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from webhooks.condition import Blocker

__all__ = ["BlockedBy", "ConditionReason", "NextAttemptAt"]

ConditionReason = Annotated[
    str, Field(description="Why it is in this state, in one sentence; the first thing that has to change comes first.")
]
BlockedBy = Annotated[
    Blocker | None,
    Field(
        description="What is in the way: `pause` (the subscription is disabled, or its receiver asked for a pause), "
        "`hold` (until somebody decides), `order` (an earlier event of the key), `breaker`, `schedule` (of attempts), "
        "`rate`."
    ),
]
NextAttemptAt = Annotated[
    datetime | None,
    Field(description="When it is tried next, never in the past; null where that depends on something else."),
]
