"""Retry: what happens to a delivery after an attempt (webhooks.md 4.2). Pure; chance is a parameter.

::

                     2xx                                  schedule used up, 410, 413, abort-message
    delivered <------------- attempt (counted) ---------------------------------> dead letter
                               ^      |
                               |      | anything else
                               +------+   after schedule[n] +-20 %, not before Retry-After
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from webhooks.outcome import Outcome

__all__ = ["THROTTLE_SECONDS_MIN", "Decision", "decide"]

JITTER = 0.2
THROTTLE_SECONDS_MIN = 60.0
"""How long a subscription rests after a 429 that names no time (WH-R07)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """``retry_seconds`` counts from the settlement; ``dead_kind`` says which kind of dead letter.

    ``pause_seconds`` rests the whole subscription (WH-R07); ``end_state`` ends it ("gone" or "disabled"), for
    ``end_reason``.
    """

    action: Literal["delivered", "retry", "dead"]
    retry_seconds: float = 0.0
    dead_kind: str | None = None
    pause_seconds: float | None = None
    end_state: str | None = None
    end_reason: str | None = None


def decide(
    outcome: Outcome, position: int, schedule: Sequence[int], chance: float, rest_seconds: float | None = None
) -> Decision:
    """Decide after the attempt at this ``position`` of the schedule (1 = the first).

    ``schedule`` holds the pauses after the first, second, ... attempt, in seconds; when it is used up the delivery
    dies. ``chance`` in [0, 1) places the pause in its jitter of plus or minus 20 %, upwards only under a
    Retry-After (WH-R02, WH-R06). ``rest_seconds`` is what was left of the pause that an attempt out of turn fell into
    (new content, DL-8): the schedule goes on where it was.
    """
    final = _final(outcome)
    if final is not None:
        return final
    pause = _subscription_pause(outcome)
    state, reason = _asked_end(outcome)
    # 413: the same body will not shrink (DL-6).
    if position > len(schedule) or outcome.status == 413:
        kind = "internal" if outcome.kind == "internal" else "exhausted"  # theirs or ours (WH-13)
        return Decision("dead", 0.0, kind, pause, state, reason)
    wait = _wait_seconds(outcome, schedule[position - 1], chance, rest_seconds)
    return Decision("retry", wait, None, pause, state, reason)


def _wait_seconds(outcome: Outcome, planned: float, chance: float, rest: float | None) -> float:
    wait = outcome.retry_after_seconds
    if wait is not None and wait >= (planned if rest is None else rest):
        return wait * (1 + JITTER * chance)
    pause = planned * (1 + JITTER * (2 * chance - 1)) if rest is None else rest
    return max(pause, wait or 0.0)


def _final(outcome: Outcome) -> Decision | None:
    """What ends a delivery whatever its schedule says."""
    if outcome.kind == "delivered":
        state, reason = _asked_end(outcome)
        return Decision("delivered", end_state=state, end_reason=reason)
    if outcome.kind == "gone":
        return Decision("dead", dead_kind="gone", end_state="gone", end_reason="answered 410")
    if outcome.asked == "abort-message":
        return Decision("dead", dead_kind="aborted", pause_seconds=_subscription_pause(outcome))
    return None


def _asked_end(outcome: Outcome) -> tuple[str | None, str | None]:
    """The receiver may disable its subscription with any answer; the delivery goes as the status says (WH-R10)."""
    return ("disabled", "asked_by_receiver") if outcome.asked == "disable" else (None, None)


def _subscription_pause(outcome: Outcome) -> float | None:
    if outcome.status != 429:
        return None
    return outcome.retry_after_seconds if outcome.retry_after_seconds is not None else THROTTLE_SECONDS_MIN
