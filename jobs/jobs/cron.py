"""Cron: when a schedule is due next, in its own time zone. Pure.

The five fields are minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). Lists, ranges, steps
and English names of months and days are allowed. If both day fields are restricted, a day that matches either of them
is due, as in cron. A local time that a clock change skips is due an hour later. A local time that occurs twice is due
once, unless every hour is in the field. Fields with the same values mean the same: ``*``, ``*/1`` and ``0-23``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["Cron", "CronError", "zone_of"]

_DAYS_MAX = 3_000
_HOURS, _DAYS = 24, 31
_MINUTE = timedelta(minutes=1)
_CHANGE_MAX = timedelta(hours=3)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEK = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class CronError(ValueError):
    """The text is not a schedule."""


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of this name. Raise :class:`CronError` for an unknown name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"unknown time zone {name[:80]}") from None


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule, with its minutes and hours in order.

    The flags are set if the field has all values.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    hour_is_any: bool
    day_is_any: bool
    weekday_is_any: bool
    zone: tzinfo

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> Cron:
        """Return the schedule of a text such as ``30 6 * * mon-fri``. Raise :class:`CronError` for a bad one."""
        fields = text.lower().split()
        if len(fields) != 5 or len(text) > 200:
            raise CronError(f"a schedule has five fields, as in '30 6 * * mon-fri'; this is {text[:80]!r}")
        names: tuple[tuple[str, ...], ...] = ((), (), (), ("", *_MONTHS), _WEEK)
        minutes, hours, days, months, weekdays = (
            _values(field, bounds, known) for field, bounds, known in zip(fields, _BOUNDS, names, strict=True)
        )
        weekdays = frozenset(day % 7 for day in weekdays)
        cron = cls(
            tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays,
            len(hours) == _HOURS, len(days) == _DAYS, len(weekdays) == len(_WEEK), zone_of(zone),
        )  # fmt: skip
        if not any(cron._is_due_on(date(2024, 1, 1) + timedelta(days=n)) for n in range(366)):
            raise CronError(f"{text[:80]!r} is never due")
        return cron

    def after(self, moment: datetime) -> datetime:
        """Return the first due time after ``moment``, in UTC. Raise :class:`CronError` if eight years hold none."""
        found: list[datetime] = []
        for start in self._hours(moment):
            if _has_change(start):  # the moments of the next hour may lie before its own
                found += [due for due in self._moments(start) if due > moment]
            elif found := found + self._first_of(start, moment):
                break
        if not found:
            raise CronError("the schedule is not due within eight years")
        return min(found)

    def _hours(self, moment: datetime) -> Iterator[datetime]:
        # A skipped local time is due after later ones, so the walk begins a little earlier.
        begin = (moment - _CHANGE_MAX).astimezone(self.zone)
        for n in range(_DAYS_MAX):
            day = begin.date() + timedelta(days=n)
            if self._is_due_on(day):
                hours = self.hours if n else self.hours[bisect_left(self.hours, begin.hour) :]
                yield from (datetime(day.year, day.month, day.day, hour, tzinfo=self.zone) for hour in hours)

    def _is_due_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.day_is_any or self.weekday_is_any:
            return by_day and by_weekday
        return by_day or by_weekday

    def _first_of(self, start: datetime, moment: datetime) -> list[datetime]:
        first = start.astimezone(UTC)
        place = bisect_right(self.minutes, (moment - first) / _MINUTE)
        return [first + minute * _MINUTE for minute in self.minutes[place : place + 1]]

    def _moments(self, start: datetime) -> Iterator[datetime]:
        for minute in self.minutes:
            local = start.replace(minute=minute)
            first, second = local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)
            yield first
            if self.hour_is_any and second > first:
                yield second


def _has_change(hour: datetime) -> bool:
    ends = (hour, hour.replace(minute=59))
    return len({end.replace(fold=fold).utcoffset() for end in ends for fold in (0, 1)}) > 1


def _values(field: str, bounds: tuple[int, int], names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step_text = part.partition("/")
        first_text, dash, last_text = span.partition("-")
        low, high = bounds
        step = _number(step_text, (), field) if step_text else 1
        if span == "*":
            first, last = low, high
        else:
            first = _number(first_text, names, field)
            last = _number(last_text, names, field) if dash else high if step_text else first
        if step < 1 or not low <= first <= last <= high or part.endswith("/"):
            raise CronError(f"{part!r} is outside of {low}-{high}")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, names: tuple[str, ...], field: str) -> int:
    if text and text in names:
        return names.index(text)
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise CronError(f"{field[:80]!r} is no field of a schedule")
    return int(text)
