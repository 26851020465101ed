"""webhooks/outcome.py: what an answer, or its absence, means (webhooks.md 4.1)."""

from datetime import UTC, datetime

import pytest

from egress.client import Response
from egress.failure import BadResponse, Blocked, ConnectFailed, DeadlineExceeded, DnsFailed, OutboundError, TlsFailed
from webhooks.outcome import Outcome, outcome_of_error, outcome_of_response

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def judged(status: int, *headers: tuple[str, str], body: bytes = b"") -> Outcome:
    response = Response(status, headers, body, False, "192.0.2.1", 0.1, 0.2, 0.3)
    return outcome_of_response(response, NOW, lambda: 3600.0)


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        ("delivered", (200, 201, 202, 203, 204, 206, 226, 299)),
        ("redirect", (300, 301, 302, 303, 304, 307, 308)),
        ("client_error", (400, 401, 403, 404, 408, 409, 413, 415, 425, 451)),
        ("gone", (410,)),
        ("throttled", (429, 502, 504)),
        ("server_error", (500, 501, 503, 505, 599, 600, 999)),
    ],
)
def test_the_class_of_every_status(kind: str, statuses: tuple[int, ...]) -> None:
    """WH-T11."""
    assert {status: judged(status).kind for status in statuses} == dict.fromkeys(statuses, kind)


def test_a_success_is_kept_without_what_the_receiver_said() -> None:
    """WS-58: the body is ignored."""
    expected = Outcome("delivered", 200, None, None, None, "192.0.2.1", 0.1, 0.2, 0.3)
    assert judged(200, ("retry-after", "5"), ("content-type", "text/html"), body=b"thanks") == expected


def test_a_failure_is_kept_with_the_headers_that_matter() -> None:
    """WH-P06."""
    outcome = judged(503, ("retry-after", "5"), ("set-cookie", "a=b"), ("content-type", "text/html"), body=b"why")
    assert (outcome.headers, outcome.body, outcome.retry_after_seconds) == (
        (("retry-after", "5"), ("content-type", "text/html")),
        b"why",
        5.0,
    )


@pytest.mark.parametrize(
    ("values", "seconds"),
    [(["7"], 7.0), (["7", "9"], 9.0), (["99999"], 3600.0), (["-1"], None), (["soon"], None), ([], None)],
)
def test_retry_after_is_read_on_every_failure(values: list[str], seconds: float | None) -> None:
    """WH-R05, WH-R06; the corpus itself: test_retry_after.py."""
    for status in (301, 404, 429, 500, 503):
        assert judged(status, *(("retry-after", value) for value in values)).retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("status", "value", "asked"),
    [
        (500, "abort-message", "abort-message"),
        (500, " Abort-Message ", "abort-message"),
        (200, "abort-message", None),
        (200, "disable", "disable"),
        (500, "DISABLE", "disable"),
        (500, "delete-everything", None),
        (500, "", None),
    ],
)
def test_only_known_wishes_of_a_receiver_are_honoured(status: int, value: str, asked: str | None) -> None:
    """WH-R10: unknown values are ignored."""
    assert judged(status, ("webhook-delivery", value)).asked == asked


def test_a_redirect_says_what_to_do() -> None:
    assert judged(301).detail == "redirects are not followed; register the new address"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Blocked("10.0.0.1 is in 10.0.0.0/8"), "blocked"),
        (DnsFailed("no address"), "dns"),
        (ConnectFailed("refused"), "connect"),
        (TlsFailed("certificate"), "tls"),
        (DeadlineExceeded("too slow"), "timeout"),
        (BadResponse("not HTTP"), "bad_response"),
    ],
)
def test_the_class_of_an_attempt_without_an_answer(error: OutboundError, kind: str) -> None:
    """OB-11: a tenant reads the detail, never the operator's reason."""
    assert outcome_of_error(error, 1.5) == Outcome(kind, None, error.detail, total_seconds=1.5)
