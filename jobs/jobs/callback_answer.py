"""Decide the next step of a job after the answer of its callback. Pure.

::

    2xx ----------------------------------> completed, with the body as its result
    408, 425, 429, 5xx with Retry-After --> postponed; the attempt does not count
    410 ----------------------------------> released; the subscription ends
    any other 4xx ------------------------> failed, no further attempt
    anything else, or no answer ----------> the attempt failed; the retry policy of the kind applies
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from egress.client import Response
from egress.retry_after import retry_after_seconds
from event.strict_json import StrictJsonError, loads, storable_text

__all__ = ["CallbackVerdict", "judge_answer"]

_ANOTHER_TRY_MAY_HELP: Final = (408, 425, 429)
_GONE: Final = 410
_SNOOZE_SECONDS_MIN: Final = 1.0


@dataclass(frozen=True, slots=True)
class CallbackVerdict:
    """The next step of a job.

    ``verb`` names the step. ``result`` belongs to ``complete``, ``seconds`` to ``snooze``. ``why`` is the reason of a
    failure, a snooze or a release, or a note on the result.
    """

    verb: Literal["complete", "snooze", "release", "fail", "discard"]
    result: Any = None
    seconds: float = 0.0
    why: str = ""


def judge_answer(answer: Response | str, now: datetime, retry_after_seconds_max: float) -> CallbackVerdict:
    """Return the next step of the job. ``answer`` is the response, or the reason why there is none."""
    if isinstance(answer, str):
        return CallbackVerdict("fail", why=answer)
    why = f"the callback answered {answer.status}"
    if 200 <= answer.status <= 299:
        return _completed(answer)
    if answer.status == _GONE:
        return CallbackVerdict("release", why=why)
    if answer.status in _ANOTHER_TRY_MAY_HELP or answer.status >= 500:
        wait = retry_after_seconds(answer.values("retry-after"), now, retry_after_seconds_max)
        if wait is not None:
            return CallbackVerdict("snooze", seconds=max(wait, _SNOOZE_SECONDS_MIN), why=why)
        return CallbackVerdict("fail", why=why)
    return CallbackVerdict("discard" if answer.status >= 400 else "fail", why=why)


def _completed(answer: Response) -> CallbackVerdict:
    """Return the step for a 2xx answer: the work is done, and is not repeated because of the answer's body.

    The result is JSON as it is, other text as a JSON string, or null for an empty body. ``why`` is a note on a body
    that is not what its type says.
    """
    body = answer.body.removeprefix(BOM_UTF8)
    if answer.truncated:
        return _kept(body, "it is too large, or broke off")
    if not body.strip():
        return CallbackVerdict("complete")
    content_type = next(iter(answer.values("content-type")), "").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        return _kept(body, None if _is_text(body) else "it is not UTF-8 or has a NUL character")
    try:
        return CallbackVerdict("complete", loads(body))
    except StrictJsonError as error:
        return _kept(body, f"it is no {content_type}: {error.reason}")


def _kept(body: bytes, why: str | None) -> CallbackVerdict:
    text = body.decode("utf-8", "replace")
    if why is None:
        return CallbackVerdict("complete", text)
    return CallbackVerdict("complete", storable_text(text) or None, why=f"the callback's result is kept as text: {why}")


def _is_text(body: bytes) -> bool:
    try:
        return "\x00" not in body.decode()
    except UnicodeDecodeError:
        return False
