"""Retry: the decision about a delivery after an attempt. Pure; chance is a parameter.

::

                     2xx                        schedule used up, too old, 410, 413, abort-message
    delivered <------------- attempt (counted) ---------------------------------> dead letter
                               ^      |
                               |      | anything else
                               +------+   after schedule[n] +-20 %, not before Retry-After
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from webhooks.condition import DeadKind
from webhooks.outcome import Outcome

__all__ = ["DELIVERED", "THROTTLE_SECONDS_MIN", "Decision", "RetryPolicy", "decide"]

JITTER = 0.2
THROTTLE_SECONDS_MIN = 60.0
"""How long a subscription rests after a 429 that names no time."""

_ANOTHER_TRY_MAY_HELP = (408, 425)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The rules of a subscription for failures.

    ``schedule_seconds`` holds the pauses after the first, second, ... attempt; when it is used up the delivery is given
    up. It is also given up when its next attempt would come ``age_seconds_max`` after its creation. ``on_4xx``
    "give_up": such an answer is final for the delivery. ``on_410`` "as_4xx": it does not end the subscription.
    ``parks``: an exhausted delivery waits for a person's decision, unless its publisher's time to live has ended
    (``is_late_final``). ``is_415_final``: 415 is final, as for CloudEvents. ``gives_up``: every answer but a success is
    final for the delivery.
    """

    schedule_seconds: Sequence[int]
    age_seconds_max: float = float("inf")
    on_4xx: str = "retry"
    on_410: str = "end"
    parks: bool = False
    is_415_final: bool = False
    is_late_final: bool = False
    gives_up: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step of a delivery. ``retry_seconds`` counts from the settlement; ``dead_kind`` is the kind of the dead
    letter, ``dead_reason`` its reason where the outcome alone does not say it.

    ``pause_seconds`` pauses the whole subscription; ``end_state`` ends it ("gone" or "disabled"), for
    ``end_reason``.
    """

    action: Literal["delivered", "retry", "park", "dead"]
    retry_seconds: float = 0.0
    dead_kind: DeadKind | None = None
    pause_seconds: float | None = None
    end_state: str | None = None
    end_reason: str | None = None
    dead_reason: str | None = None


DELIVERED = Decision("delivered")
"""The decision of :func:`decide` about a plain success, under any policy."""


def decide(
    outcome: Outcome,
    position: int,
    policy: RetryPolicy,
    chance: float,
    rest_seconds: float | None = None,
    age_seconds: float = 0.0,
) -> Decision:
    """Decide after the attempt at this ``position`` of the schedule (1 = the first).

    ``chance`` in [0, 1) places the pause in its jitter of plus or minus 20 %, upwards only under a Retry-After.
    ``rest_seconds`` is set for an attempt outside the schedule, such as new content: the rest of the pause that it
    interrupted. ``age_seconds``: the age of the delivery.
    """
    final = _final(outcome, policy)
    if final is not None:
        return final
    pause = _subscription_pause(outcome)
    state, reason = _asked_end(outcome)
    wait = _wait_seconds(outcome, policy, position, chance, rest_seconds)
    too_late = None if wait is None else _too_late(outcome, policy, age_seconds, wait)
    if wait is None or too_late is not None:
        kind = _dead_kind(outcome, policy, is_late=too_late is not None)
        if policy.parks and kind != "internal" and not (too_late and policy.is_late_final):
            return Decision("park", 0.0, None, pause, state, reason, too_late)
        return Decision("dead", 0.0, kind, pause, state, reason, too_late)
    return Decision("retry", wait, None, pause, state, reason)


def _dead_kind(outcome: Outcome, policy: RetryPolicy, *, is_late: bool) -> DeadKind:
    """Return the kind of the dead letter: our failure, a final answer, an ended time, or a used-up schedule."""
    if outcome.kind == "internal":
        return "internal"
    if _is_final_answer(outcome, policy):
        return "declined"
    return "too_late" if is_late else "exhausted"


def _wait_seconds(
    outcome: Outcome, policy: RetryPolicy, position: int, chance: float, rest: float | None
) -> float | None:
    """Return the seconds until the next attempt; None when there is none."""
    if position > len(policy.schedule_seconds) or _is_final_answer(outcome, policy):
        return None
    planned = policy.schedule_seconds[position - 1]
    wait = outcome.retry_after_seconds
    if wait is not None and wait >= (planned if rest is None else rest):
        return wait * (1 + JITTER * chance)
    pause = planned * (1 + JITTER * (2 * chance - 1)) if rest is None else rest
    return max(pause, wait or 0.0)


def _is_final_answer(outcome: Outcome, policy: RetryPolicy) -> bool:
    if policy.gives_up and outcome.status is not None:
        return True
    # A repeat would be refused too: the body is as large, and its format the same.
    if outcome.status == 413 or (outcome.status == 415 and policy.is_415_final):
        return True
    is_4xx = outcome.kind in ("client_error", "gone") and outcome.status not in _ANOTHER_TRY_MAY_HELP
    return is_4xx and policy.on_4xx == "give_up"


def _too_late(outcome: Outcome, policy: RetryPolicy, age: float, wait: float) -> str | None:
    """Return why the next attempt would exceed the delivery's age limit; None if it would not."""
    if age + wait <= policy.age_seconds_max:
        return None
    asked = outcome.retry_after_seconds
    because = (
        "Retry-After names a time after"
        if asked is not None and age + asked > policy.age_seconds_max
        else "the next attempt is after"
    )
    return f"{because} the age limit of {policy.age_seconds_max:g} s"


def _final(outcome: Outcome, policy: RetryPolicy) -> Decision | None:
    """Return the end of a delivery that does not depend on its schedule."""
    if outcome.is_plain_success:
        return DELIVERED
    if outcome.kind == "delivered":
        state, reason = _asked_end(outcome)
        return Decision("delivered", end_state=state, end_reason=reason)
    if outcome.kind == "gone" and policy.on_410 == "end":
        return Decision("dead", dead_kind="gone", end_state="gone", end_reason="answered 410")
    if outcome.asked == "abort-message":
        return Decision("dead", dead_kind="aborted", pause_seconds=_subscription_pause(outcome))
    return None


def _asked_end(outcome: Outcome) -> tuple[str | None, str | None]:
    """Apply the receiver's request to disable its subscription, in any answer."""
    return ("disabled", "asked_by_receiver") if outcome.asked == "disable" else (None, None)


def _subscription_pause(outcome: Outcome) -> float | None:
    if outcome.status != 429:
        return None
    return outcome.retry_after_seconds if outcome.retry_after_seconds is not None else THROTTLE_SECONDS_MIN
