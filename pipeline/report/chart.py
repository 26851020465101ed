"""Charts over time: stacked bars and lines. The shapes are SVG, and all words are HTML, so that both fit any screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

__all__ = ["COLOURS", "Axis", "bars", "lines", "number"]

Point = tuple[datetime, float]
Series = Mapping[str, Sequence[Point]]

COLOURS: Final = 8
"""The number of colours; the style sheet has a class for each: `c1` and so on."""
_WIDTH, _HEIGHT = 1000, 100
_FULL: Final = 0.86  # the part of its hour or day that a bar fills
_LABELS_MAX: Final = 8
_STEPS_HOURS: Final = (1, 2, 3, 6, 12, 24)
_STEPS_SECONDS: Final = (
    15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
)  # fmt: skip
"""Round times; shorter and longer ones are rounded as other numbers are."""


def number(value: float) -> str:
    """Write a number as people do."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis: the days that have data. ``step`` is an hour or a day."""

    since: datetime
    until: datetime
    step: timedelta

    @classmethod
    def of(cls, moments: Sequence[datetime], step: timedelta) -> Axis:
        """Return the axis over whole days that shows these moments, of which there is one at least."""
        first, last = (each.replace(hour=0, minute=0, second=0, microsecond=0) for each in (min(moments), max(moments)))
        return cls(first, last + timedelta(days=1), step)

    def x(self, moment: datetime) -> float:
        """Return the horizontal position of a time."""
        return round((moment - self.since) / (self.until - self.since) * _WIDTH, 1)

    @property
    def steps(self) -> int:
        """Return the number of hours or days."""
        return round((self.until - self.since) / self.step)

    def labels(self) -> Iterator[tuple[float, str]]:
        """Yield the words below the axis, each with its position in percent."""
        days = (self.until - self.since).days
        if days == 1:
            hours = next(hours for hours in _STEPS_HOURS if 24 / hours <= _LABELS_MAX)
            moments = [self.since + timedelta(hours=hour) for hour in range(0, 24, hours)]
        else:
            moments = [self.since + timedelta(days=day) for day in range(0, days, ceil(days / _LABELS_MAX))]
        for moment in moments:
            yield self.x(moment) / 10, f"{moment:%H:%M}" if days == 1 else f"{moment:%b} {moment.day}"

    def words(self, moment: datetime) -> str:
        """Return an hour or a day in words."""
        return f"{moment:%Y-%m-%d %H:%M}" if self.step < timedelta(days=1) else f"{moment:%Y-%m-%d}"


def bars(title: str, axis: Axis, series: Series) -> str:
    """Return a chart with one bar for each hour or day; the series are stacked. The values are counts."""
    totals: dict[datetime, float] = {}
    for points in series.values():
        for at, value in points:
            totals[at] = totals.get(at, 0.0) + value
    ticks = _ticks(max(totals.values(), default=0.0), least=1.0)
    width = _WIDTH / axis.steps
    shapes, base = [], dict.fromkeys(totals, 0.0)
    for colour, (name, points) in enumerate(series.items()):
        for at, value in points:
            high, low = _y(base[at] + value, ticks), _y(base[at], ticks)
            base[at] += value
            left = axis.x(at) + width * (1 - _FULL) / 2
            place = f'x="{left:.1f}" y="{high}" width="{width * _FULL:.1f}" height="{round(low - high, 2)}"'
            words = escape(f"{name}, {axis.words(at)}: {number(value)}")
            shapes.append(f'<rect class="{_class(colour)}" {place}><title>{words}</title></rect>')
    return _drawn(title, axis, series, ticks, shapes, number)


def lines(
    title: str, axis: Axis, series: Series, time: Callable[[float], str] | None = None, mark: float | None = None
) -> str:
    """Return a chart with one line for each series; a line ends where an hour or a day has no value.

    ``time`` writes values that are seconds. ``mark`` is a horizontal line, such as a limit.
    """
    words = time or number
    highest = max((value for points in series.values() for _, value in points), default=0.0)
    ticks = _ticks(max(highest, mark or 0.0), steps=_STEPS_SECONDS if time else ())
    shapes = []
    for colour, (name, points) in enumerate(series.items()):
        for part in _unbroken(sorted(points), axis.step):
            places = [(axis.x(at + axis.step / 2), _y(value, ticks)) for at, value in part]
            path = " ".join(f"{x},{y}" for x, y in places)
            shapes.append(f'<polyline class="{_class(colour)}" points="{path}"/>')
            for (x, y), (at, value) in zip(places, part, strict=True):
                said = escape(f"{name}, {axis.words(at)}: {words(value)}")
                shapes.append(f'<path class="{_class(colour)}" d="M{x} {y}h0"><title>{said}</title></path>')
    if mark is not None:
        shapes.append(f'<line class="mark" x1="0" x2="{_WIDTH}" y1="{_y(mark, ticks)}" y2="{_y(mark, ticks)}"/>')
    return _drawn(title, axis, series, ticks, shapes, words)


def _unbroken(points: Sequence[Point], step: timedelta) -> Iterator[Sequence[Point]]:
    """Yield the parts of a line between its gaps."""
    ends = [n for n, (one, other) in enumerate(pairwise(points), 1) if other[0] - one[0] > step]
    for start, end in pairwise([0, *ends, len(points)]):
        yield points[start:end]


def _drawn(
    title: str, axis: Axis, series: Series, ticks: Sequence[float], shapes: Sequence[str],
    words: Callable[[float], str],
) -> str:  # fmt: skip
    grid = "".join(
        f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>' for y in (_y(t, ticks) for t in ticks)
    )
    up = "".join(f'<span style="bottom:{100 - _y(t, ticks)}%">{escape(_short(t, words))}</span>' for t in ticks)
    along = "".join(
        f'<span{" class=more" if n % 2 else ""} style="left:{place}%">{text}</span>'
        for n, (place, text) in enumerate(axis.labels())
    )
    legend = "".join(
        f'<span><i class="{_class(colour)}"></i>{escape(name)}</span>' for colour, name in enumerate(series)
    )
    return (
        f'<figure><div class="plot"><div class="up">{up}</div><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'preserveAspectRatio="none" aria-label="{escape(title)}">{grid}{"".join(shapes)}</svg></div>'
        f'<div class="along">{along}</div><figcaption>{legend}</figcaption></figure>'
    )


def _short(tick: float, words: Callable[[float], str]) -> str:
    """Return the words of a tick; millions of things are shortened, because the place beside a chart is narrow."""
    return f"{number(tick / 1e6)} M" if words is number and tick >= 1e6 else words(tick)


def _class(colour: int) -> str:
    return f"c{colour % COLOURS + 1}"


def _y(value: float, ticks: Sequence[float]) -> float:
    return round(_HEIGHT - value / ticks[-1] * _HEIGHT, 2)


def _ticks(highest: float, least: float = 0.0, steps: Sequence[float] = ()) -> list[float]:
    """Return round numbers from 0 to the top of a chart, some four of them.

    ``least`` is the smallest step. ``steps`` are taken where they fit.
    """
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / 4
    unit = 10.0 ** floor(log10(rough))
    decimal = max(least, next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999))
    step = next((step for step in steps if step >= rough >= steps[0] / 2), decimal)
    return [step * n for n in range(ceil(highest / step * 0.9999) + 1)]
