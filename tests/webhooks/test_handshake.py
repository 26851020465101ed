"""webhooks/handshake.py: what an answer to OPTIONS says (WH-C12, WH-C13)."""

import pytest

from egress.client import Response
from webhooks.handshake import Consent, NoConsent, consent_in

ORIGIN = "hub.example"


def answered(*headers: tuple[str, str], status: int = 200) -> Response:
    return Response(status, headers, b"", False, "203.0.113.1", 0.1, 0.1, 0.1)


def allows(value: str) -> tuple[str, str]:
    return ("webhook-allowed-origin", value)


def at(value: str) -> tuple[str, str]:
    return ("webhook-allowed-rate", value)


@pytest.mark.parametrize(
    ("headers", "rate"),
    [
        ([allows(ORIGIN)], None),
        ([allows("*")], None),
        ([allows("Hub.Example")], None),
        ([allows("*"), at("120")], 120),
        ([allows("*"), at("*")], None),
        ([allows("*"), at("999999999")], 6_000_000),
    ],
)
@pytest.mark.parametrize("status", [200, 204, 405, 500])
def test_consent_is_in_the_header_and_the_status_means_nothing(
    headers: list[tuple[str, str]], rate: int | None, status: int
) -> None:
    """WH-C13."""
    assert consent_in(answered(*headers, status=status), ORIGIN) == Consent(rate)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [allows("other.example")],
        [allows("")],
        [allows("*.example")],
        [allows(ORIGIN), allows("other.example")],
        [allows("*"), at("0")],
        [allows("*"), at("-1")],
        [allows("*"), at("fast")],
        [allows("*"), at("1"), at("2")],
    ],
)
def test_everything_else_is_no_consent(headers: list[tuple[str, str]]) -> None:
    """WH-C13."""
    with pytest.raises(NoConsent):
        consent_in(answered(*headers), ORIGIN)
