"""Charts over hours, drawn as SVG: stacked bars and lines, with axes, a legend and a title for each mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from math import ceil, floor, log10
from typing import Final

__all__ = ["Chart", "bars", "lines"]

Series = Mapping[str, Sequence[tuple[datetime, float]]]

_WIDTH, _HEIGHT = 960, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 30
_COLOURS: Final = ("#2f6db3", "#e08a1e", "#3c9a5f", "#b3402f", "#7a5bb0", "#8a6d4b", "#c25b94", "#6f7780")
_MIDDLE = timedelta(minutes=30)  # a point stands in the middle of its hour
_STEPS_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336)


@dataclass(frozen=True, slots=True)
class Chart:
    """The axes of a chart. ``unit`` follows each number; ``mark`` is a horizontal line, such as a limit."""

    since: datetime
    until: datetime
    unit: str = ""
    mark: float | None = None

    def x(self, moment: datetime) -> float:
        """Return the horizontal position of a time."""
        share = (moment - self.since) / (self.until - self.since)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def bars(chart: Chart, series: Series) -> str:
    """Return an SVG with one bar for each hour; the series are stacked."""
    totals: dict[datetime, float] = {}
    for points in series.values():
        for hour, value in points:
            totals[hour] = totals.get(hour, 0.0) + value
    top = _top(max(totals.values(), default=0.0), chart)
    width = max(chart.x(chart.since + timedelta(hours=1)) - chart.x(chart.since) - 1, 0.8)
    shapes, base = [], dict.fromkeys(totals, 0.0)
    for colour, (name, points) in zip(_colours(series), series.items(), strict=True):
        for hour, value in points:
            high, low = _y(base[hour] + value, top), _y(base[hour], top)
            base[hour] += value
            title = f"<title>{_label(name, hour, value, chart)}</title>"
            place = f'x="{chart.x(hour)}" y="{high}" width="{width:.1f}" height="{max(low - high, 0):.1f}"'
            shapes.append(f'<rect {place} fill="{colour}">{title}</rect>')
    return _drawn(chart, top, series, shapes)


def lines(chart: Chart, series: Series) -> str:
    """Return an SVG with one line for each series."""
    top = _top(max((value for points in series.values() for _, value in points), default=0.0), chart)
    shapes = []
    for colour, (name, points) in zip(_colours(series), series.items(), strict=True):
        places = [(chart.x(hour + _MIDDLE), _y(value, top)) for hour, value in sorted(points)]
        radius = 2.5 if len(places) > 1 else 4
        path = " ".join(f"{x},{y}" for x, y in places)
        shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (hour, value) in zip(places, sorted(points), strict=True):
            title = f"<title>{_label(name, hour, value, chart)}</title>"
            shapes.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}">{title}</circle>')
    return _drawn(chart, top, series, shapes)


def _drawn(chart: Chart, top: float, series: Series, shapes: Sequence[str]) -> str:
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">', *_grid(chart, top), *shapes]
    if chart.mark is not None:
        y = _y(chart.mark, top)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" class="mark"/>')
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for colour, name in zip(_colours(series), series, strict=True)
    )
    return f'{"".join(parts)}</svg><p class="legend">{legend}</p>'


def _grid(chart: Chart, top: float) -> list[str]:
    parts = []
    for fifth in range(6):
        value = top * fifth / 5
        y = _y(value, top)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_number(value)}{chart.unit}</text>')
    hours = ceil((chart.until - chart.since) / timedelta(hours=1))
    step = next((step for step in _STEPS_HOURS if hours / step <= 10), ceil(hours / 10))
    for hour in range(0, hours, step):
        moment = chart.since + timedelta(hours=hour)
        words = f"{moment:%b %d}" if step >= 24 else f"{moment:%d %H:%M}"
        parts.append(f'<text x="{chart.x(moment)}" y="{_HEIGHT - 8}">{words}</text>')
    return parts


def _colours(series: Series) -> list[str]:
    return [_COLOURS[number % len(_COLOURS)] for number in range(len(series))]


def _y(value: float, top: float) -> float:
    return round(_HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM), 1)


def _top(highest: float, chart: Chart) -> float:
    """Return the next round number, which is the top of the chart."""
    highest = max(highest, chart.mark or 0.0)
    if highest <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(highest))
    return next(unit * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * step >= highest)


def _label(name: str, hour: datetime, value: float, chart: Chart) -> str:
    return escape(f"{name}, {hour:%Y-%m-%d %H:%M}: {_number(value)}{chart.unit}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
