"""The fields of a condition: reason, blocker and next attempt, the same in every answer (FT-04)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from webhooks.condition import Blocker

__all__ = ["BlockedBy", "ConditionReason", "NextAttemptAt"]

ConditionReason = Annotated[
    str, Field(description="Why it is in this state, in one sentence. What has to change first comes first.")
]
BlockedBy = Annotated[
    Blocker | None,
    Field(
        description="What prevents the next attempt: `pause` (the subscription is disabled, or its receiver asked for "
        "a pause), `hold` (an operator has to decide), `order` (an earlier event of the key), `breaker`, "
        "`schedule` (of attempts), `rate` (the rate limit)."
    ),
]
NextAttemptAt = Annotated[
    datetime | None,
    Field(description="When it is tried next. Never in the past; null if no time is known."),
]
