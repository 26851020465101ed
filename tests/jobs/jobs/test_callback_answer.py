"""jobs/jobs/callback_answer.py: what a callback's answer means for its job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from egress.client import Response
from jobs.jobs.callback_answer import CallbackVerdict, judge_answer

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
JSON = ("content-type", "application/json; charset=utf-8")
KEPT = "the callback's result is kept as text: "
NO_JSON = f"{KEPT}it is no application/json: not JSON: Expecting value at character 0"
NO_TEXT = f"{KEPT}it is not UTF-8 or has a NUL character"


def answered(status: int, body: bytes = b"", *headers: tuple[str, str], truncated: bool = False) -> Response:
    return Response(status, headers, body, truncated, "192.0.2.1", 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (answered(200, b'{"paid": [1]}', JSON), CallbackVerdict("complete", {"paid": [1]})),
        (answered(201, b"[1]", ("content-type", "application/hal+json")), CallbackVerdict("complete", [1])),
        (answered(204), CallbackVerdict("complete")),
        (answered(200, b"", JSON), CallbackVerdict("complete")),
        (answered(200, "grün".encode(), ("content-type", "text/plain")), CallbackVerdict("complete", "grün")),
        (answered(200, b"ok"), CallbackVerdict("complete", "ok")),
        (
            answered(503, b"", ("retry-after", "7")),
            CallbackVerdict("snooze", seconds=7.0, why="the callback answered 503"),
        ),
        (
            answered(429, b"", ("retry-after", "0")),
            CallbackVerdict("snooze", seconds=1.0, why="the callback answered 429"),
        ),
        (
            answered(429, b"", ("retry-after", "999999")),
            CallbackVerdict("snooze", seconds=60.0, why="the callback answered 429"),
        ),
        (answered(429, b"", ("retry-after", "soon")), CallbackVerdict("fail", why="the callback answered 429")),
        (answered(408), CallbackVerdict("fail", why="the callback answered 408")),
        (answered(500), CallbackVerdict("fail", why="the callback answered 500")),
        (answered(302), CallbackVerdict("fail", why="the callback answered 302")),
        (
            answered(404, b"", ("retry-after", "7")),
            CallbackVerdict("discard", why="the callback answered 404"),
        ),
        (answered(410), CallbackVerdict("release", why="the callback answered 410")),
        ("no connection", CallbackVerdict("fail", why="no connection")),
    ],
    ids=lambda value: value.why or str(value.result) if isinstance(value, CallbackVerdict) else "",
)
def test_an_answer_says_what_follows(answer: Response | str, verdict: CallbackVerdict) -> None:
    assert judge_answer(answer, NOW, 60.0) == verdict


@pytest.mark.parametrize(
    ("answer", "result", "note"),
    [
        (answered(200, b"OK", JSON), "OK", NO_JSON),
        (answered(200, b"<p>", JSON), "<p>", NO_JSON),
        (answered(200, b" \r\n", JSON), None, ""),
        (answered(200, b'\xef\xbb\xbf{"paid": true}', JSON), {"paid": True}, ""),
        (answered(200, b"a\xff"), "a\ufffd", NO_TEXT),
        (answered(200, b"a\x00"), "a\ufffd", NO_TEXT),
        (answered(200, b"[1,", JSON, truncated=True), "[1,", f"{KEPT}it is too large, or broke off"),
        (answered(200, b"", JSON, truncated=True), None, f"{KEPT}it is too large, or broke off"),
        (answered(200, b"[NaN]", JSON), "[NaN]", f"{KEPT}it is no application/json: NaN is not JSON"),
        (answered(200, b'"\\u0000"', JSON), '"\\u0000"', f"{KEPT}it is no application/json: a text holds U+0000"),
        (answered(200, b"x" * 70_000, JSON), "x" * 65_536, NO_JSON),
    ],
)
def test_work_that_is_reported_done_is_done_whatever_its_report_is(answer: Response, result: object, note: str) -> None:
    """GB-06: three calls, then discarded, for a body that is no result."""
    assert judge_answer(answer, NOW, 60.0) == CallbackVerdict("complete", result, why=note)
