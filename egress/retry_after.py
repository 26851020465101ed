"""`Retry-After`, read strictly (RFC 9110 section 10.2.3; WH-R05, WH-R06, OB-09, DL-3).

The value is untrusted. Only ASCII digits or one of the three HTTP dates of RFC 9110 section 5.6.7 are read. A date in
the past counts as absent, and a wait above the cap as the cap.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

CAP_SECONDS = 3600.0
"""Longest wait a receiver can ask for unless the operator raises it (WH-R06)."""

CAP_SECONDS_MAX = 86_400.0
"""The highest cap for an operator, or for CloudEvents mode."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = (
    re.compile(rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(
        r"(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday), "
        rf"(?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"
    ),
    re.compile(rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)
_DIGITS = re.compile(r"[0-9]+")


def retry_after_seconds(values: Iterable[str], now: datetime, cap_seconds: float = CAP_SECONDS) -> float | None:
    """Return the wait that a receiver asked for, in seconds from `now`, or None when it asked for nothing usable.

    Args:
        values: every `Retry-After` field of the answer; of several usable ones the longest counts.
        now: aware time of the answer.
        cap_seconds: longest wait to grant; a longer one is cut to it.
    """
    waits = [wait for value in values if (wait := _wait_seconds(value.strip(" \t"), now, cap_seconds)) is not None]
    return max(waits, default=None)


def _wait_seconds(value: str, now: datetime, cap_seconds: float) -> float | None:
    if _DIGITS.fullmatch(value):
        # Ten digits are 300 years; longer numbers are cut before int() sees them (PA-04).
        return cap_seconds if len(value) > 10 else min(float(int(value)), cap_seconds)
    moment = _http_date(value, now)
    if moment is None or moment < now:
        return None
    return min((moment - now).total_seconds(), cap_seconds)


def _http_date(value: str, now: datetime) -> datetime | None:
    match = next((found for pattern in _DATES if (found := pattern.fullmatch(value))), None)
    if match is None:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year = _full_year(year, now.year)
    second = int(match["second"])
    try:
        moment = datetime(
            year,
            _MONTHS.index(match["month"]) + 1,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            min(second, 59),
            tzinfo=UTC,
        )
        # The grammar has second 60 for leap seconds, datetime has not.
        return moment + timedelta(seconds=1) if second == 60 else moment if second < 60 else None
    except (ValueError, OverflowError):
        return None


def _full_year(two_digits: int, year_now: int) -> int:
    """Read a two-digit year as the last one with these digits that is not more than 50 years ahead."""
    year = year_now - year_now % 100 + two_digits
    return year - 100 if year > year_now + 50 else year
