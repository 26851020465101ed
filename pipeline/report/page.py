"""The page: figures as tiles, plots and tables, in one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from pipeline.report.chart import Chart, bars, lines
from pipeline.report.figures import Figures, burn

__all__ = ["page"]

_TOPICS_SHOWN: Final = 7
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.note, .legend { font-size: .9rem; margin: .2rem 0; } .note { opacity: .75; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.tiles div { background: var(--soft); border-radius: .5rem; padding: .6rem 1rem; min-width: 7.6rem; }
.tiles b { display: block; font-size: 1.4rem; } .bad { color: #c0392b; } .good { color: #2e8b57; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; opacity: .75; }
.grid { stroke: var(--line); stroke-width: .6; } .mark { stroke: #c0392b; stroke-dasharray: 6 4; }
.legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; }
"""


def page(figures: Figures) -> str:
    """Return the whole HTML document."""
    span = f"{figures.since:%Y-%m-%d %H:%M} to {figures.until:%Y-%m-%d %H:%M} UTC"
    sections = (
        ("Volume", "Records in the lake by hour and Kafka topic.", _volume(figures)),
        ("Latency", "How long attempts at webhooks took: half, 95 % and 99 % of them were faster.", _latency(figures)),
        ("Attempts and retries", "By hour; failed attempts are repeated by schedule.", _attempts(figures)),
        ("Error budget", f"Used part of the attempts that may fail at a target of {figures.target:.2%}; above 1 the "
         "budget is overdrawn.", _budget(figures)),
        ("Failing endpoints", "Subscriptions with the most failed attempts.", _failing(figures.failing)),
        ("Anomalies of volume", "Hours far from a topic's median.", _anomalies(figures.anomalies)),
        ("Audit", "Is everything that was accepted in the lake, once and in order?", _audit(figures.audit)),
    )  # fmt: skip
    body = "".join(f'<h2>{name}</h2><p class="note">{escape(note)}</p>{content}' for name, note, content in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>hookwire: delivery report</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f'<h1>Delivery report</h1><p class="note">{span}; made {figures.made_at:%Y-%m-%d %H:%M} UTC</p>'
        f"{_tiles(figures)}{body}</body></html>\n"
    )


def _tiles(figures: Figures) -> str:
    records = sum(sum(hours.values()) for hours in figures.volume.values())
    attempts, good = sum(a.attempts for a in figures.attempts), sum(a.good for a in figures.attempts)
    share = good / attempts if attempts else None
    findings = None if figures.audit is None else figures.audit["count"]
    tiles = [
        ("records", f"{records:,}", ""),
        ("Kafka topics", f"{len(figures.volume):,}", ""),
        ("attempts", f"{attempts:,}", ""),
        ("of attempts delivered", "-" if share is None else f"{share:.2%}",
         "" if share is None else _mood(share >= figures.target)),
        ("dead letters", f"{sum(a.dead for a in figures.attempts):,}", ""),
        ("audit findings", "not run" if findings is None else f"{findings:,}",
         "" if findings is None else _mood(findings == 0)),
    ]  # fmt: skip
    shown = "".join(f'<div><b class="{mood}">{value}</b>{name}</div>' for name, value, mood in tiles)
    return f'<div class="tiles">{shown}</div>'


def _mood(is_good: bool) -> str:
    return "good" if is_good else "bad"


def _volume(figures: Figures) -> str:
    if not figures.volume:
        return _nothing("nothing was archived")
    by_size = sorted(figures.volume, key=lambda topic: -sum(figures.volume[topic].values()))
    series = {topic: sorted(figures.volume[topic].items()) for topic in by_size[:_TOPICS_SHOWN]}
    if rest := by_size[_TOPICS_SHOWN:]:
        hours: dict[datetime, int] = {}
        for topic in rest:
            for hour, count in figures.volume[topic].items():
                hours[hour] = hours.get(hour, 0) + count
        series[f"{len(rest)} others"] = sorted(hours.items())
    return bars(Chart(figures.since, figures.until), series)


def _latency(figures: Figures) -> str:
    if not figures.attempts:
        return _nothing("no attempts")
    names = ("50 %", "95 %", "99 %")
    series = {name: [(a.hour, a.seconds[n] * 1000) for a in figures.attempts] for n, name in enumerate(names)}
    return lines(Chart(figures.since, figures.until, unit=" ms"), series)


def _attempts(figures: Figures) -> str:
    if not figures.attempts:
        return _nothing("no attempts")
    series = {
        "first tries": [(a.hour, a.attempts - a.retries) for a in figures.attempts],
        "retries": [(a.hour, a.retries) for a in figures.attempts],
    }
    return bars(Chart(figures.since, figures.until), series)


def _budget(figures: Figures) -> str:
    if not figures.attempts:
        return _nothing("no attempts")
    return lines(Chart(figures.since, figures.until, mark=1.0), {"used": burn(figures.attempts, figures.target)})


def _failing(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return _nothing("none; run hookwire pipeline deliveries and then metrics to fill this table")
    rows = ((row["subscription"], row["attempts"], row["failed"], f"{row['share']:.1%}", row["dead"]) for row in found)
    return _table(("subscription", "attempts", "failed", "share", "dead letters"), rows)


def _anomalies(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return _nothing("none")
    names = ("kind", "topic", "hour", "records", "median", "distance")
    return _table(names, ([row[name] for name in names] for row in found))


def _audit(audit: Mapping[str, Any] | None) -> str:
    if audit is None:
        return _nothing("not run: hookwire pipeline audit --json > audit.json, then --audit audit.json")
    since, until = (datetime.fromisoformat(audit[name]) for name in ("since", "until"))
    words = (
        f"{audit['records']:,} records in {audit['cells']:,} cells from {since:%Y-%m-%d %H:%M} to "
        f"{until:%Y-%m-%d %H:%M} UTC, "
        f"{audit['unequal']:,} cells unequal, {len(audit['unjudged']):,} unjudged; {audit['count']:,} findings"
    )
    rows = [
        (
            found["fault"],
            _place(found),
            datetime.fromisoformat(found["hour"]),
            f"{found['count']:,}",
            " ".join(found["examples"]),
        )
        for found in audit["findings"]
    ]
    table = _table(("finding", "topic", "hour", "count", "events"), rows) if rows else ""
    return f'<p class="{_mood(audit["count"] == 0)}">{escape(words)}</p>{table}'


def _place(found: Mapping[str, Any]) -> str:
    subscription = found.get("subscription")
    return f"{found['topic']} to {subscription}" if subscription else found["topic"]


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(_words(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _words(cell: object) -> str:
    return f"{cell:%Y-%m-%d %H:%M}" if isinstance(cell, datetime) else str(cell)


def _nothing(words: str) -> str:
    return f"<p>{escape(words)}</p>"
