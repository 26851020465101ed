"""Cron in time zones, and what becomes of missed ticks (JB-73, JT-23)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.jobs.cron import Cron, CronError
from jobs.jobs.job_maintainer import due_ticks

_NEXT = {
    ("30 6 * * mon-fri", "UTC", "2026-01-16T06:30"): "2026-01-19T06:30",
    ("*/20 * * * *", "UTC", "2026-01-15T23:41"): "2026-01-16T00:00",
    ("0 0 29 2 *", "UTC", "2026-01-01T00:00"): "2028-02-29T00:00",
    ("0 9 13 * fri", "UTC", "2026-01-01T00:00"): "2026-01-02T09:00",  # either day suffices
    ("0 9 * * 7", "UTC", "2026-01-01T00:00"): "2026-01-04T09:00",
    ("15 8,17 1 jan *", "Europe/Berlin", "2026-01-01T07:15"): "2026-01-01T16:15",
    # Berlin's clocks leave out 02:00-03:00 on 29 March 2026, and repeat it on 25 October.
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00"): "2026-03-29T01:30",
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00"): "2026-10-25T00:30",
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30"): "2026-10-26T01:30",
    ("30 * * * *", "Europe/Berlin", "2026-10-25T00:30"): "2026-10-25T01:30",
    ("30 */2 * * *", "Europe/Berlin", "2026-03-28T23:30"): "2026-03-29T01:30",  # 01:30 is no even hour
    ("30 */2 * * *", "Europe/Berlin", "2026-10-25T00:30"): "2026-10-25T03:30",
    ("45 2 * * *", "Europe/Berlin", "2026-03-29T01:10"): "2026-03-29T01:45",
    # Lord Howe's clocks go half an hour forward at 02:00 on 4 October 2026.
    ("10,35 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:30"): "2026-10-03T15:35",
    ("10,35 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:35"): "2026-10-03T15:40",
}


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0 */1 * * *", "0 * * * *"), ("0 0-23 * * *", "0 * * * *"), ("*/15 */1 * * *", "0,15,30,45 * * * *"),
        ("0 */2,1-23/2 * * *", "0 * * * *"), ("0 9 */1 * mon", "0 9 * * mon"), ("0 9 1-31 * mon", "0 9 * * mon"),
        ("0 9 13 * */1", "0 9 13 * *"), ("0 9 13 * 0-6", "0 9 13 * *"), ("0 9 13 * 1-7", "0 9 13 * *"),
        ("0 9 */2 * mon", "0 9 1-31/2 * mon"), ("0 9 13 * */2", "0 9 13 * 0,2,4,6"),
    ],
)  # fmt: skip
def test_fields_with_equal_values_mean_the_same(text: str, same: str) -> None:
    """GB-09: some of them paused for two hours when the clocks went back."""
    moment, due = datetime(2026, 10, 24, 22, tzinfo=UTC), []
    for schedule in (text, same):
        times, cron = [moment], Cron.parse(schedule, "Europe/Berlin")
        while len(times) < 40:
            times.append(cron.after(times[-1]))
        due.append(times)

    assert due[0] == due[1]


@pytest.mark.parametrize("case", _NEXT, ids=lambda case: " ".join(case))
def test_a_schedule_is_due_next(case: tuple[str, str, str]) -> None:
    text, zone, after = case

    found = Cron.parse(text, zone).after(datetime.fromisoformat(after).replace(tzinfo=UTC))

    assert found.strftime("%Y-%m-%dT%H:%M") == _NEXT[case]


_WRONG = [
    "",
    "* * * *",
    "60 * * * *",
    "* * * * * *",
    "*/0 * * * *",
    "5-1 * * * *",
    "a * * * *",
    "0 0 31 2 *",
    "1/ * * * *",
]


@pytest.mark.parametrize("text", _WRONG)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(CronError):
        Cron.parse(text)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(CronError):
        Cron.parse("* * * * *", "../etc/passwd")


_STARTS = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1))
_ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])


@given(minutes=st.integers(0, 59), hours=st.integers(0, 23), start=_STARTS, zone=_ZONES)
def test_a_daily_schedule_is_due_once_on_each_day_and_only_later(
    minutes: int, hours: int, start: datetime, zone: str
) -> None:
    """JT-23: also across changes of the clock."""
    cron = Cron.parse(f"{minutes} {hours} * * *", zone)
    moments = [start.replace(tzinfo=UTC)]
    for _ in range(4):
        moments.append(cron.after(moments[-1]))

    assert all(later > earlier for earlier, later in pairwise(moments))
    days = [moment.astimezone(cron.zone).date() for moment in moments[1:]]
    assert days == [days[0] + timedelta(days=n) for n in range(4)]


def test_a_hundred_ticks_of_each_minute_look_up_the_zone_a_few_times_each() -> None:
    """The ticks are found on the event loop, so none builds its whole day."""
    zone = _CountingZone()
    cron = replace(Cron.parse("* * * * *"), zone=zone)

    due_ticks(cron, _NOON - timedelta(hours=3), _NOON, "catch_up")

    assert zone.lookups < 100 * 50


class _CountingZone(tzinfo):
    """UTC, with a count of the lookups."""

    lookups = 0

    def utcoffset(self, moment: datetime | None) -> timedelta:
        self.lookups += 1
        return timedelta(0)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return "counting"


_NOON = datetime(2026, 1, 15, 12, 0, 30, tzinfo=UTC)


def _ticks(missed: str, minutes_late: int) -> tuple[int, Any]:
    next_at = _NOON.replace(second=0) - timedelta(minutes=minutes_late)
    ticks, following = due_ticks(Cron.parse("*/10 * * * *"), next_at, _NOON, missed)
    return len(ticks), (following - _NOON.replace(second=0)) // timedelta(minutes=1)


def test_missed_ticks_are_skipped_joined_or_made_up_for() -> None:
    """JB-73, JP-17."""
    found = {
        (missed, late): _ticks(missed, late) for missed in ("skip", "coalesce", "catch_up") for late in (0, 60, 6000)
    }

    assert found == {
        ("skip", 0): (1, 10), ("skip", 60): (0, 10), ("skip", 6000): (0, 10),
        ("coalesce", 0): (1, 10), ("coalesce", 60): (1, 10), ("coalesce", 6000): (1, 10),
        ("catch_up", 0): (1, 10), ("catch_up", 60): (7, 10), ("catch_up", 6000): (100, -5000),
    }  # fmt: skip
