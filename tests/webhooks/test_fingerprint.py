"""webhooks/incidents/fingerprint.py: what stays of an answer, and what does not."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable

import pytest

from webhooks.incidents.fingerprint import Fingerprint, fingerprint_of, reduced
from webhooks.outcome import Outcome

_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("answer", "excerpt"),
    [
        ("upstream checkout is down", "upstream checkout is down"),
        ("order 4711 of 2026-01-15T09:40:00.123Z failed after 00:12", "order N of TIME failed after TIME"),
        (f"request {uuid.UUID(int=7)} by ada@example.com", "request ID by ADDRESS"),
        (f"token {_JWT} has expired", "token TOKEN has expired"),
        ("host api-7f9c8d6b5-x2x9q, commit deadbeef01", "host TOKEN, commit TOKEN"),
        (
            "<!DOCTYPE html><html><head><style>a {color: red}</style><title>502 Bad Gateway</title></head>",
            "N Bad Gateway",
        ),
        ('{"error": "no such customer",\n "customer": 12345678}', '{"error": "no such customer", "customer": N}'),
        ("\x00\ud800 \U0001f600 broken", "broken"),
        ("x" * 2_000_000, "TOKEN"),
        ("a b " * 100, ("a b " * 20).strip()),
    ],
    ids=["words", "numbers", "identifiers", "token", "host", "page", "json", "no text", "a MiB", "long"],
)
def test_what_differs_each_time_is_replaced(answer: str, excerpt: str) -> None:
    """CN-03."""
    assert reduced(answer) == excerpt


@pytest.mark.parametrize(
    "make",
    [
        lambda: f"error {uuid.uuid4()}", lambda: f"error {secrets.token_hex(20)}",
        lambda: f"error {secrets.token_urlsafe(32)}", lambda: f"error {secrets.randbelow(10**9)}",
    ],
    ids=["uuid", "hexadecimal", "base64", "number"],
)  # fmt: skip
def test_answers_that_differ_by_a_random_part_have_one_fingerprint(make: Callable[[], str]) -> None:
    """CN-03."""
    found = {fingerprint_of(Outcome("server_error", 500, body=make().encode())).digest for _ in range(50)}
    assert len(found) == 1


def test_class_status_and_words_make_different_fingerprints() -> None:
    """CN-03: without an answer, the reason counts."""
    outcomes = [
        Outcome("server_error", 500, body=b"down"), Outcome("server_error", 503, body=b"down"),
        Outcome("server_error", 500, body=b"full"), Outcome("timeout", None), Outcome("connect", None, "refused"),
    ]  # fmt: skip
    found = [fingerprint_of(outcome) for outcome in outcomes]
    assert (len({one.digest for one in found}), found[-1]) == (5, Fingerprint("connect", None, "refused"))


@pytest.mark.parametrize("text", ["<", "a.", "1:", "@", "-1", "a@", "x9", " "])
def test_no_answer_takes_long(text: str) -> None:
    """CN-03: the time is that of the thread, so that other work does not count."""
    began = time.thread_time()
    reduced(text * 4_096)
    assert time.thread_time() - began < 1.0
