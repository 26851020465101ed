"""egress/retry_after.py: the corpus WH-T10, and the rules WH-R05 and WH-R06 (OB-09, DL-3)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.retry_after import CAP_SECONDS, CAP_SECONDS_MAX, retry_after_seconds

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (["120"], 120),
        ([" 120\t"], 120),
        (["0"], 0),
        (["0007"], 7),
        (["3600"], 3600),
        (["3601"], CAP_SECONDS),
        (["1000000000"], CAP_SECONDS),
        (["9" * 400], CAP_SECONDS),
        (["Sun, 01 Mar 2026 12:01:00 GMT"], 60),
        (["Sunday, 01-Mar-26 12:01:00 GMT"], 60),
        (["Sun Mar  1 12:01:00 2026"], 60),
        (["Sun Mar 01 12:01:00 2026"], 60),
        (["Sun, 01 Mar 2026 12:00:60 GMT"], 60),
        (["Sun, 01 Mar 2026 12:00:00 GMT"], 0),
        (["Sun, 01 Mar 2099 12:00:00 GMT"], CAP_SECONDS),
        (["Fri, 31 Dec 9999 23:59:60 GMT"], None),
        (["30", "90"], 90),
        (["soon", "90"], 90),
    ],
)
def test_a_usable_wish_is_granted_up_to_the_cap(values: list[str], seconds: float | None) -> None:
    assert retry_after_seconds(values, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "-1", "+5", "1.5", "1e3", "5s", "0x10", "१०", "120, 60", "soon", "null", "1 2", "12\n",
        "Sat, 28 Feb 2026 12:00:00 GMT",
        "Saturday, 28-Feb-26 12:00:00 GMT",
        "Mon Jan  1 00:00:00 0001",
        "Sun, 30 Feb 2026 12:00:00 GMT",
        "Sun, 01 Mar 2026 24:00:00 GMT",
        "Sun, 01 Mar 2026 12:00:61 GMT",
        "Sun, 01 Mar 2026 12:01:00 +0100",
        "Sun, 01 Mar 2026 12:01:00 UTC",
        "sun, 01 mar 2026 12:01:00 gmt",
        "Sun, 1 Mar 2026 12:01:00 GMT",
        "2026-03-01T12:01:00Z",
        "Sun, 01 Mar 0000 12:00:00 GMT",
    ],
    ids=repr,
)  # fmt: skip
def test_garbage_negative_and_past_values_are_ignored(value: str) -> None:
    """WH-R05."""
    assert retry_after_seconds([value], NOW) is None


def test_no_field_is_no_wish() -> None:
    assert retry_after_seconds([], NOW) is None


def test_the_operator_can_raise_the_cap_to_a_day() -> None:
    """WH-R06."""
    assert retry_after_seconds(["1000000000"], NOW, CAP_SECONDS_MAX) == 86_400


@pytest.mark.parametrize(("year", "full"), [("26", 2026), ("76", 2076), ("77", 1977), ("99", 1999)])
def test_a_two_digit_year_is_at_most_fifty_years_ahead(year: str, full: int) -> None:
    """RFC 9110 section 5.6.7."""
    granted = retry_after_seconds([f"Sunday, 01-Dec-{year} 12:00:00 GMT"], NOW, cap_seconds=1e12)
    expected = (datetime(full, 12, 1, 12, tzinfo=UTC) - NOW).total_seconds()
    assert granted == (expected if expected >= 0 else None)


@given(st.lists(st.text(max_size=40), max_size=3))
def test_any_text_gives_a_wait_within_the_cap_or_none(values: list[str]) -> None:
    granted = retry_after_seconds(values, NOW)
    assert granted is None or 0 <= granted <= CAP_SECONDS
