"""The fields of a condition: reason, blocker and next attempt, the same in every answer (FT-04)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from webhooks.condition import Blocker

__all__ = ["BlockedBy", "ConditionReason", "NextAttemptAt"]

ConditionReason = Annotated[
    str, Field(description="Why it is in this state, in one sentence, beginning with the reason to cure first.")
]
BlockedBy = Annotated[
    Blocker | None,
    Field(
        description="The reason that prevents the next attempt: `pause` (the subscription is disabled, or its "
        "receiver asked for a pause), `hold` (an operator has to decide), `in_flight` (an attempt is on its way), "
        "`order` (an earlier event of the same key is open), `breaker` (the circuit breaker is open), `schedule` (the "
        "next attempt is not due), `rate` (the rate limit)."
    ),
]
NextAttemptAt = Annotated[
    datetime | None,
    Field(description="The time of the next attempt. Never in the past; null if no time is known."),
]
