"""Cron: when a schedule is due next, in its own time zone. Pure.

The five fields are minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). Lists, ranges, steps
and English names of months and days are allowed. If both day fields are restricted, a day that matches either of them
is due, as in cron. A local time that a clock change skips is due an hour later. A local time that occurs twice is due
once, unless the hour is ``*``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["Cron", "CronError", "zone_of"]

_DAYS_MAX = 3_000
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
    """A schedule. A flag such as ``hour_is_any`` is set where the field begins with ``*``."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    hour_is_any: bool
    day_is_any: bool
    weekday_is_any: bool
    zone: ZoneInfo

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
        anything = [field.startswith("*") for field in fields]
        cron = cls(minutes, hours, days, months, weekdays, anything[1], anything[2], anything[4], zone_of(zone))
        if not any(cron._is_due_on(date(2024, 1, 1) + timedelta(days=n)) for n in range(366)):
            raise CronError(f"{text[:80]!r} is never due")
        return cron

    def after(self, moment: datetime) -> datetime:
        """Return the first due time after ``moment``, in UTC. Raise :class:`CronError` if eight years hold none."""
        day = moment.astimezone(self.zone).date()
        for _ in range(_DAYS_MAX):
            if self._is_due_on(day) and (later := [found for found in self._moments(day) if found > moment]):
                return min(later)
            day += timedelta(days=1)
        raise CronError("the schedule is not due within eight years")

    def _is_due_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.day_is_any or self.weekday_is_any:
            return by_day and by_weekday
        return by_day or by_weekday

    def _moments(self, day: date) -> Iterator[datetime]:
        for hour in self.hours:
            for minute in self.minutes:
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                yield local.astimezone(UTC)
                if self.hour_is_any:
                    yield local.replace(fold=1).astimezone(UTC)


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
