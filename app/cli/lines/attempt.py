"""Lines for people about one attempt of a delivery, with the answer of its receiver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["attempt_line", "outcome_of_attempt", "receiver_answer"]

_SHOWN_CHARACTERS_MAX: Final = 200


def outcome_of_attempt(attempt: Mapping[str, Any]) -> str:
    """Return the outcome of an attempt, with its status and its detail if there are any."""
    status, detail = attempt["status"], attempt["detail"]
    return f"{attempt['outcome']}{f' {status}' if status else ''}{f': {detail}' if detail else ''}"


def receiver_answer(attempt: Mapping[str, Any]) -> str:
    """Return the beginning of the receiver's body; empty without one, or without the scope `payloads`."""
    body = (attempt["response_body"] or "").strip()
    return body if len(body) <= _SHOWN_CHARACTERS_MAX else f"{body[:_SHOWN_CHARACTERS_MAX]}…"


def attempt_line(attempt: Mapping[str, Any]) -> str:
    """Return one line: outcome, duration and the receiver's body."""
    answer = receiver_answer(attempt)
    line = f"attempt {attempt['number']}: {outcome_of_attempt(attempt)} in {attempt['total_seconds']:.3f} s"
    return f"{line}, answer: {answer!r}" if answer else line
