"""The page: figures as tiles, plots and tables, each with the query of its numbers, in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Final

from pipeline.report.audit import audit_content, audit_tile, left_out
from pipeline.report.chart import Axis, bars, lines
from pipeline.report.figures import SHOWN_MAX, Figures, Row, burn
from pipeline.report.markup import Html, counted, duration, first, moment, nothing, table
from pipeline.report.queries import QUERIES

__all__ = ["page"]

_STYLE: Final = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
_WORST: Final = 10
_MANY: Final = 20
_LINE_POINTS_MIN: Final = 3
_PERCENTILES: Final = {"p50": "50 %", "p95": "95 %", "p99": "99 %"}
_LATENCY_HEADS: Final = ("#Events", "#50 %", "#95 %", "#99 %", "#Longest", "#Late")
_REASONS: Final = {
    "credentials": "The endpoint refuses the credentials", "gone": "The address does not exist there",
    "throttled": "The endpoint takes fewer requests", "redirect": "The endpoint redirects",
    "refused": "The endpoint refuses the event", "failing": "The endpoint has an error",
    "timeout": "No answer in time", "unreachable": "No connection", "other": "Other reasons",
}  # fmt: skip


def page(figures: Figures) -> str:
    """Return the whole HTML document."""
    span = f"{moment(figures.since)} to {moment(figures.until)} UTC"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>hookwire: delivery report</title>'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src 'unsafe-inline'\"><style>{_STYLE}</style></head><body><main>"
        f'<h1>Delivery report</h1><p class="note">{span}; made {moment(figures.made_at)} UTC</p>'
        f"{_tiles(figures)}{''.join(_sections(figures))}{_about(figures)}</main></body></html>\n"
    )


def _sections(figures: Figures) -> Iterator[str]:
    late = duration(figures.answers.parameters["late_seconds"])
    days = f"--since {figures.since:%Y-%m-%d} --until {figures.until - timedelta(days=1):%Y-%m-%d}"
    yield _section("Age of the lake", "How old the newest data were when this page was made.", _ages(figures),
                   "newest_event", "newest_attempt")  # fmt: skip
    yield _section("Volume", "Records in the lake by Kafka topic.", _volume(figures), "volume")
    yield _section("From acceptance to a 2xx answer",
                   f"Half, 95 % and 99 % of the events were delivered sooner. Late: after more than {late}. Replays do "
                   "not count.", _latency(figures), "latency")  # fmt: skip
    yield _section("From acceptance to the lake",
                   "Through Kafka and the archive. To Kafka: by the broker's clock, where the topic has LogAppendTime; "
                   f"else a record has the time of its acceptance. Late there: after more than {late}.",
                   _lateness(figures), "lateness")  # fmt: skip
    yield _section("Attempts and retries", "Failed attempts are repeated by schedule.", _attempts(figures), "attempts")
    yield _section("Duration of attempts", "Half, 95 % and 99 % of the attempts at webhooks were faster.",
                   _durations(figures), "attempts")  # fmt: skip
    yield _section("Error budget", f"Used part of the attempts that may fail at a target of {figures.target:.2%}; "
                   "above 1 the budget is overdrawn.", _budget(figures), "attempts")  # fmt: skip
    yield _section("Why attempts failed", "First and last seen within these days.", _reasons(figures), "reasons")
    yield _section("Failing endpoints", "Subscriptions with the most failed attempts.", _failing(figures), "failing")
    yield _section("Anomalies of volume", "Hours far from a topic's median.", _anomalies(figures.anomalies),
                   command=f"hookwire pipeline anomaly {days}")  # fmt: skip
    yield _section("Audit", "Is everything that was accepted in the lake, once and in order?", audit_content(figures))
    yield _section("What the audit left out", "What it did not compare, or could not prove.", left_out(figures),
                   command="hookwire pipeline audit --json")  # fmt: skip


def _section(title: str, note: str, content: str, *queries: str, command: str = "") -> str:
    source = "".join(
        f"<details><summary>Query {name}</summary><pre>{escape(QUERIES[name])}</pre></details>" for name in queries
    )
    told = f'<p class="note">Command: <code>{escape(command)}</code></p>' if command else ""
    return f'<section><h2>{title}</h2><p class="note">{escape(note)}</p>{content}{source}{told}</section>'


def _about(figures: Figures) -> str:
    values = "".join(
        f"<li><code>:{name}</code> is <code>{escape(_literal(value))}</code></li>"
        for name, value in figures.answers.parameters.items()
    )
    return (
        '<section><h2>About the numbers</h2><p class="note">The queries are Spark SQL over the Delta tables '
        f"<code>bronze</code> and <code>deliveries</code> of <code>{escape(figures.lake)}</code>. Their parameters:</p>"
        f'<ul class="note">{values}</ul></section>'
    )


def _literal(value: object) -> str:
    """Write the value of a parameter as SQL does."""
    return f"DATE'{value}'" if isinstance(value, date) else repr(value)


# --- tiles ---------------------------------------------------------------------------------------------------------


def _tiles(figures: Figures) -> str:
    attempts = figures.answers["attempts"]
    number, good = sum(row["attempts"] for row in attempts), sum(row["good"] for row in attempts)
    share, delivered = good / number if number else None, figures.answers.delivered
    newest = figures.newest.get("event")
    tiles = [
        ("records", f"{sum(sum(of.values()) for of in figures.volume.values()):,}", ""),
        ("attempts", f"{number:,}", ""),
        ("of attempts delivered", "–" if share is None else f"{good * 10_000 // number / 100:.2f}%",
         "" if share is None else _mood(share >= figures.target)),
        ("95 % delivered within", "–" if delivered is None else duration(delivered["p95"]), ""),
        ("delivered late", "–" if delivered is None else f"{delivered['late']:,}",
         "" if delivered is None else _mood(delivered["late"] == 0)),
        ("dead letters", f"{sum(row['dead'] for row in attempts):,}", ""),
        ("age of the newest event", "–" if newest is None else _age(figures, newest), ""),
        audit_tile(figures),
    ]  # fmt: skip
    shown = "".join(f'<div><b class="{mood}">{escape(value)}</b>{name}</div>' for name, value, mood in tiles)
    return f'<div class="tiles">{shown}</div>'


def _mood(is_good: bool) -> str:
    return "good" if is_good else "bad"


# --- sections ------------------------------------------------------------------------------------------------------


def _ages(figures: Figures) -> str:
    names = {"event": "newest event in bronze", "attempt": "newest attempt in deliveries"}
    rows: list[tuple[object, ...]] = [(names[name], at, _age(figures, at), None) for name, at in figures.newest.items()]
    rows += [
        (f"last run of {job.name}", job.started_at, _age(figures, job.started_at), job.state) for job in figures.jobs
    ]
    if not rows:
        return nothing("nothing was archived")
    left = figures.uncopied
    copied = nothing(
        f"{counted(left, 'attempt')} of these days {'is' if left == 1 else 'are'} not in the lake yet, and "
        "not on this page: hookwire pipeline deliveries copies them"
    )
    return table(("What", "When (UTC)", "#Age", "State"), rows) + (copied if left else "")


def _age(figures: Figures, at: datetime) -> str:
    seconds = (figures.made_at - at).total_seconds()
    return duration(seconds) if seconds >= 0 else f"{duration(-seconds)} in the future"


def _volume(figures: Figures) -> str:
    if not figures.volume:
        return nothing("nothing was archived in these days")
    series = {name: list(points.items()) for name, points in figures.volume.items()}
    axis = Axis.of([at for points in series.values() for at, _ in points], _step(figures))
    return bars("Records by Kafka topic", axis, series)


def _step(figures: Figures) -> timedelta:
    return timedelta(hours=1) if figures.answers.parameters["grain"] == "hour" else timedelta(days=1)


def _attempts(figures: Figures) -> str:
    rows = figures.answers["attempts"]
    if not rows:
        return _no_attempts()
    series = {
        "first tries": [(row["at"], row["attempts"] - row["retries"]) for row in rows],
        "retries": [(row["at"], row["retries"]) for row in rows],
    }
    return bars("First tries and retries", Axis.of([row["at"] for row in rows], _step(figures)), series)


def _durations(figures: Figures) -> str:
    rows = figures.answers["attempts"]
    if not rows:
        return _no_attempts()
    step = _step(figures)
    if len(rows) < _LINE_POINTS_MIN:
        name = "Hour (UTC)" if step < timedelta(days=1) else "Day"
        cells = [(row["at"], row["attempts"], *(duration(row[p]) for p in _PERCENTILES)) for row in rows]
        return table((name, "#Attempts", *(f"#{words}" for words in _PERCENTILES.values())), cells)
    series = {words: [(row["at"], row[p]) for row in rows] for p, words in _PERCENTILES.items()}
    return lines("Duration of attempts", Axis.of([row["at"] for row in rows], step), series, duration)


def _budget(figures: Figures) -> str:
    points = burn(figures.answers["attempts"], figures.target)
    if not points:
        return _no_attempts()
    used = points[-1][1]
    said = f'<p class="{_mood(used <= 1)}">{used:.2f} of the budget is used.</p>'
    if len(points) < _LINE_POINTS_MIN:
        return said
    axis = Axis.of([at for at, _ in points], _step(figures))
    return said + lines("Used error budget", axis, {"used": points}, mark=1.0)


def _no_attempts() -> str:
    return nothing("no attempts in these days; hookwire pipeline deliveries copies them into the lake")


def _latency(figures: Figures) -> str:
    found = figures.answers.latency(of_day=False)
    if not found:
        return nothing("nothing was delivered in these days, as far as the lake knows")
    daily = figures.answers.latency(of_day=True)
    days = [(_endpoint(figures, row["subscription"]), row["day"], *_latency_cells(row)) for row in daily]
    by_day = table(("Endpoint", "Day", *_LATENCY_HEADS), days)
    rest = found[0]["endpoints"] - len(found)
    others = nothing(f"{counted(rest, 'faster endpoint')} {'is' if rest == 1 else 'are'} not shown")
    others = others if rest else ""
    if len({row["day"] for row in daily}) == 1:
        return by_day + others
    together = table(
        ("Endpoint", *_LATENCY_HEADS),
        [(_endpoint(figures, row["subscription"]), *_latency_cells(row)) for row in found],
    )
    folded = f"<details><summary>By endpoint and day</summary>{by_day}</details>"
    return _latency_chart(figures) + together + others + folded


def _latency_chart(figures: Figures) -> str:
    rows = figures.answers.latency_by_day()
    if len(rows) < _LINE_POINTS_MIN:
        return ""
    days = [datetime.combine(row["day"], datetime.min.time(), UTC) for row in rows]
    series = {words: [(day, row[p]) for day, row in zip(days, rows, strict=True)] for p, words in _PERCENTILES.items()}
    axis = Axis.of(days, timedelta(days=1))
    return lines("From acceptance to a 2xx answer, all endpoints by day", axis, series, duration)


def _lateness(figures: Figures) -> str:
    shown, more = first(figures.answers["lateness"], _MANY)
    if not shown:
        return nothing("no events of the hub in these days")
    heads = ("Kafka topic", *_LATENCY_HEADS[:-1], "#95 % to Kafka", "#Late in Kafka")
    rows = [
        (row["topic"], row["events"], *_times(row), _time(row["p95_to_kafka"]), _late(row["late"])) for row in shown
    ]
    return table(heads, rows) + more


def _latency_cells(row: Row) -> tuple[object, ...]:
    return row["events"], *_times(row), _late(row["late"])


def _times(row: Row) -> Iterator[str | None]:
    return (_time(row[name]) for name in (*_PERCENTILES, "longest"))


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds)


def _late(number: int | None) -> object:
    return Html(f'<span class="bad">{number:,}</span>') if number else number


def _endpoint(figures: Figures, subscription: str) -> Html:
    """Return what people call the subscription; its id, which the commands take, stands small below."""
    found = figures.endpoints.get(subscription)
    if found is None:
        return Html(f"<code>{escape(subscription)}</code><small>not in the database any more</small>")
    host = (found.host,) if found.name and found.host else ()
    more = " · ".join((*host, found.topic, subscription))
    return Html(f"{escape(figures.called(subscription))}<small>{escape(more)}</small>")


def _reasons(figures: Figures) -> str:
    shown, more = first(figures.answers["reasons"], _MANY)
    if not shown:
        return nothing("no attempt failed") if figures.answers["attempts"] else _no_attempts()
    rows = [
        (_reason(row), _of_endpoints(figures, row), row["attempts"], row["dead"], row["first_seen"], row["last_seen"])
        for row in shown
    ]
    heads = ("Reason", "Endpoints", "#Attempts", "#Dead letters", "First seen (UTC)", "Last seen (UTC)")
    return table(heads, rows) + more


def _reason(row: Row) -> Html:
    codes = " · ".join(str(row[name]).replace("_", " ") for name in ("status", "outcome") if row[name] is not None)
    reason: str = row["reason"]
    return Html(f"{escape(_REASONS.get(reason, reason))}<small>{escape(codes)}</small>")


def _of_endpoints(figures: Figures, row: Row) -> object:
    return _endpoint(figures, row["subscription"]) if row["endpoints"] == 1 else f"{row['endpoints']:,} endpoints"


def _failing(figures: Figures) -> str:
    shown, more = first(figures.answers["failing"], _WORST)
    if not shown:
        return nothing("none") if figures.answers["attempts"] else _no_attempts()
    rows = [
        (
            _endpoint(figures, row["subscription"]), row["attempts"], row["failed"],
            f"{row['failed'] / row['attempts']:.1%}", row["dead"], row["last_delivered"], row["last_failed"],
        )
        for row in shown
    ]  # fmt: skip
    heads = ("Endpoint", "#Attempts", "#Failed", "#Share", "#Dead letters", "Last delivered (UTC)", "Last failed (UTC)")
    return table(heads, rows) + more


def _anomalies(found: Sequence[Mapping[str, object]]) -> str:
    if not found:
        return nothing("none")
    names = ("kind", "topic", "hour", "records", "median", "distance")
    shown, more = first(found, SHOWN_MAX)
    rows = ([row[name] for name in names] for row in shown)
    return table(("Kind", "Topic", "Hour (UTC)", "#Records", "#Median", "#Distance"), rows) + more
