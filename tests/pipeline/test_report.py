"""The report's page: one file, nothing fetched, nothing of a stranger's left as markup, whatever the data are."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from pipeline.audit.inquiry import OTHER_KEY
from pipeline.report.chart import Axis, bars, lines
from pipeline.report.figures import Endpoint, Figures, Job, LakeAnswers, burn, summary
from pipeline.report.markup import duration
from pipeline.report.page import page
from pipeline.report.queries import QUERIES, grain_of

BEGIN = datetime(2026, 1, 15, tzinfo=UTC)
HOURS = [BEGIN + timedelta(hours=n) for n in range(24)]
TIMES = {"p50": 0.34, "p95": 7.25, "p99": 95.0, "longest": 7260.0}
AUDIT: Mapping[str, Any] = {
    "lake_uri": "file:///lake", "ended_at": BEGIN + timedelta(hours=26), "exit_code": 1, "found": 3, "count": 6,
    "since": BEGIN, "until": BEGIN + timedelta(days=1), "records": 2424, "cells": 96, "unequal": 1, "unjudged": [{}],
    "remembered": 7, "outside": 3, "unarchived": 8, "unproved": 4, "unsealed": 5, "erased": 6, "aged": 2,
    "confirmed": ["2024-11-03 of orders counts as proved as it is: 3 records"],
    "unconfirmed": ["evt_k3v7q2ha_9"], "lake": ["bronze: commit 17, <DELETE> by delta-rs"],
    "deleted": [{"topic": "orders", "before": "2026-01-10", "cells": 2, "events": 8,
                 "verdict": "unconfirmed"}],
    "findings": [{"fault": "lost", "topic": "<b>orders</b>", "hour": HOURS[9], "count": 1,
                  "examples": ["evt_k3v7q2ha_42"], "subscription": None},
                 {"fault": "late", "topic": "orders", "hour": HOURS[9], "count": 1, "examples": ["evt_k3v7q2ha_43"],
                  "subscription": "sub_a"},
                 {"fault": OTHER_KEY, "topic": "orders", "hour": HOURS[9], "count": 11, "examples": [],
                  "subscription": None}],
}  # fmt: skip


def attempts(hours: list[datetime], good: int = 99) -> list[dict[str, Any]]:
    return [
        {"at": hour, "attempts": 100, "good": good, "retries": 4, "dead": 1, "p50": 0.004, "p95": 0.03, "p99": 0.2}
        for hour in hours
    ]


def latency(subscription: str | None, day: date | None) -> dict[str, Any]:
    return {"subscription": subscription, "day": day, "events": 90, "late": 2, "endpoints": 2, **TIMES}


ROWS: dict[str, list[dict[str, Any]]] = {
    "volume": [
        *({"topic": "<b>orders</b>", "at": hour, "records": 100 + hour.hour, "others": None} for hour in HOURS),
        {"topic": "carts", "at": HOURS[3], "records": 7, "others": None},
    ],
    "attempts": attempts(HOURS),
    "latency": [latency(each, day) for each in (None, "sub_<b>", "sub_a") for day in (None, BEGIN.date())],
    "reasons": [{"reason": "failing", "status": 503, "outcome": "server_error", "attempts": 24, "endpoints": 1,
                 "subscription": "sub_a", "dead": 1, "first_seen": HOURS[1], "last_seen": HOURS[20]}],
    "failing": [{"subscription": "sub_a", "attempts": 9, "failed": 3, "dead": 1, "last_delivered": HOURS[2],
                 "last_failed": HOURS[20]}],
    "lateness": [{"topic": "orders", "events": 2424, "late": 0, "p95_to_kafka": 0.9, **TIMES},
                 {"topic": "carts", "events": 7, "late": None, "p95_to_kafka": None, **TIMES}],
    "newest_event": [{"at": HOURS[23]}],
    "newest_attempt": [{"at": None}],
}  # fmt: skip


def figures(rows: Mapping[str, Any] | None = None, grain: str = "hour", **changes: Any) -> Figures:
    parameters = {"first": BEGIN.date(), "last": BEGIN.date(), "grain": grain, "late_seconds": 3600.0}
    values: dict[str, Any] = {
        "since": BEGIN, "until": BEGIN + timedelta(days=1), "made_at": BEGIN + timedelta(days=1), "lake": "file:///lake",
        "answers": LakeAnswers(parameters, ROWS | dict(rows or {})),
        "anomalies": [{"kind": "spike", "topic": "carts", "hour": HOURS[3], "records": 7, "median": 0, "distance": 7}],
        "endpoints": {"sub_a": Endpoint("Billing & Co", "hooks.example", "orders")},
        "jobs": [Job("archive", HOURS[22], "done")], "audit": AUDIT,
    }  # fmt: skip
    return Figures(**values | changes)


def cells(html: str, heading: str) -> list[str]:
    """The words of the cells below a heading."""
    section = html.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0].partition("<details")[0]
    found = re.findall(r"<td[^>]*>(.*?)</td>", section)
    return [re.sub("</small>|</?time>", "", each.replace("<small>", " | ")) for each in found]


def test_the_page_shows_each_part_and_fetches_nothing() -> None:
    html = page(figures())
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Age of the lake", "Volume", "From acceptance to a 2xx answer", "From acceptance to the lake",
        "Attempts and retries", "Duration of attempts", "Error budget", "Why attempts failed", "Failing endpoints",
        "Anomalies of volume", "Audit", "What the audit left out", "About the numbers",
    ]  # fmt: skip
    assert (html.count("<svg"), re.findall(r"https?://|<script|src=|@import", html)) == (4, [])
    assert ("<b>orders</b>" in html, html.count("&lt;b&gt;orders&lt;/b&gt;") > 24) == (False, True)


def test_the_page_answers_who_fails_why_and_since_when() -> None:
    """GP-14: names and hosts instead of ids, reasons with first and last seen."""
    html = page(figures())
    assert cells(html, "Why attempts failed") == [
        "The endpoint has an error | 503 · server error", "Billing &amp; Co | hooks.example · orders · sub_a", "24",
        "1", "2026-01-15 01:00", "2026-01-15 20:00",
    ]  # fmt: skip
    assert cells(html, "Failing endpoints")[:5] == [
        "Billing &amp; Co | hooks.example · orders · sub_a", "9", "3", "33.3%", "1",
    ]  # fmt: skip
    audited = [cells(each, "Audit") for each in (html, page(figures(endpoints={})))]
    assert [row[6] for row in audited] == ["orders to Billing &amp; Co (sub_a)", "orders to sub_a"]


def test_the_page_answers_how_long_events_took_and_how_old_the_lake_is() -> None:
    """GP-14: an endpoint that the database has forgotten keeps its id."""
    html = page(figures())
    times = ["90", "340 ms", "7.25 s", "1 min 35 s", "2 h 1 min", '<span class="bad">2</span>']
    assert cells(html, "From acceptance to a 2xx answer") == [
        "<code>sub_&lt;b&gt;</code> | not in the database any more", "2026-01-15", *times,
        "Billing &amp; Co | hooks.example · orders · sub_a", "2026-01-15", *times,
    ]  # fmt: skip
    assert cells(html, "From acceptance to the lake") == [
        "orders", "2,424", *times[1:5], "900 ms", "0", "carts", "7", *times[1:5], "–", "–",
    ]  # fmt: skip
    assert cells(html, "Age of the lake") == [
        "newest event in bronze", "2026-01-15 23:00", "1 h", "–", "last run of archive", "2026-01-15 22:00", "2 h",
        "done",
    ]  # fmt: skip


def test_the_page_tells_what_the_audit_left_out() -> None:
    """GP-14."""
    section = page(figures()).partition("<h2>What the audit left out</h2>")[2].partition("</section>")[0]
    assert re.findall("<li>(.*?)</li>", section) == [
        "events that were accepted before or after these hours: 2026-01-15 00:00 to 2026-01-16 00:00 UTC",
        "offsets that the archive has not read yet, which were read from Kafka: 8",
        "records in the lake that belong to other hours: 3",
        "records of days that the ledger does not cover and no audit has proved: 2",
        "unjudged cells, which differ, and whose events are gone or too many: 1",
        "cells whose contents the ledger does not know, or that were partly erased: 4",
        "records that no seal proves: 5",
        "records with a seal of a key that is not here: 11",
        "erased events, of which only the place is compared: 6",
        "unconfirmed erasures, of which the database knows nothing: 1",
        "a day older than the ledger, which a person confirmed: "
        "2024-11-03 of orders counts as proved as it is: 3 records",
        "orders: 8 events in 2 cells of days before 2026-01-10, which retention deleted (unconfirmed)",
    ]


@pytest.mark.parametrize(
    ("changes", "tile", "mood"),
    [
        ({}, '<b class="bad">3</b>audit findings', "bad"),
        ({"exit_code": 2, "found": 0}, '<b class="">6</b>things not compared by the audit', ""),
        ({"exit_code": 0, "found": 0, "count": 0}, '<b class="good">0</b>audit findings', "good"),
    ],
)
def test_what_was_not_compared_is_no_finding(changes: dict[str, Any], tile: str, mood: str) -> None:
    """GP-14: an audit that could not judge a cell was three red findings with its file, and none without."""
    made = figures(audit={**AUDIT, **changes})
    html = page(made)
    assert (tile in html, f'<p class="{mood}">2,424 records in' in html) == (True, True)
    assert summary(made)["audit_findings"] == changes.get("found", 3)


def test_an_audit_that_compared_nothing_says_so() -> None:
    """GP-14."""
    html = page(figures(audit={**AUDIT, "cells": 0, "remembered": 0}))
    assert "<li>everything: the ledger has no event for Kafka in these hours</li>" in html


def test_a_large_audit_and_many_anomalies_fit_on_a_page() -> None:
    """GP-14: the page had every finding with up to 100,000 ids each."""
    lost = {"fault": "lost", "topic": "orders", "hour": HOURS[9], "count": 900, "examples": ["evt_1"] * 900}
    audit = {
        **AUDIT, "findings": [lost | {"subscription": f"sub_{n}"} for n in range(300)],
        "lake": [f"commit {n}" for n in range(300)], "deleted": AUDIT["deleted"] * 300,
    }  # fmt: skip
    spike = {"kind": "spike", "topic": "carts", "hour": HOURS[3], "records": 7, "median": 0, "distance": 7}
    large = figures(audit=audit, anomalies=[spike] * 300)
    html = page(large)
    shown = [
        html.count(words) for words in ('<td data-head="Finding">', "<li>commit ", "which retention deleted", "spike")
    ]
    assert (shown, html.count("only the first 200 are shown")) == ([200, 200, 190, 200], 4)
    assert (html.count("evt_1"), html.count("and 890 more in the file")) == (2000, 200)
    assert len([each for each in large.subscriptions if each.startswith("sub_")]) <= 200 + 2


def test_without_an_audit_the_page_has_the_end_of_the_last_one() -> None:
    """GP-14."""
    last = {"ended_at": HOURS[4], "exit_code": 1, "findings": 3, "not_compared": 0, "failed_at": None, "failure": None}
    failed = {"failed_at": HOURS[5], "failure": "no answer"}
    never = dict.fromkeys(last)
    pages = [
        page(figures(audit=None, last_audit=found)) for found in (None, never, never | failed, last, last | failed)
    ]
    told = [cell.partition("</p>")[0] for cell in (html.partition("once and in order?</p><p>")[2] for html in pages)]
    assert [each.partition("hookwire pipeline")[0] for each in told] == [
        "not run: ", "no audit has ended yet: ", "an audit failed at 2026-01-15 05:00 UTC: no answer; ",
        "the last audit ended at 2026-01-15 04:00 UTC: exit 1, 3 findings, 0 not compared; ",
        "the last audit ended at 2026-01-15 04:00 UTC: exit 1, 3 findings, 0 not compared; an audit failed at "
        "2026-01-15 05:00 UTC: no answer; ",
    ]  # fmt: skip
    tiles = [
        "not run</b>audit",
        "not run</b>audit",
        "failed</b>audit",
        *['<b class="bad">exit 1</b>last audit, Jan 15'] * 2,
    ]
    assert [tile in html for tile, html in zip(tiles, pages, strict=True)] == [True] * 5


def test_each_number_has_its_query_on_the_page() -> None:
    """GP-14."""
    html = page(figures())
    shown = re.findall(r"<summary>Query (\w+)</summary>", html)
    assert set(shown) == set(QUERIES)
    assert "<code>:first</code> is <code>DATE&#x27;2026-01-15&#x27;</code>" in html


def test_a_hub_that_has_done_nothing_yet_has_a_page_too() -> None:
    """GP-14: that no attempt is in the lake does not mean that none has failed."""
    html = page(figures({name: [] for name in QUERIES}, audit=None, anomalies=[], jobs=[]))
    assert (html.count("<svg"), "not run" in html, html.count("no attempts in these days")) == (0, True, 5)


def test_what_does_not_fit_is_said() -> None:
    """GP-14: a list ended at its twentieth row without a word."""
    rows = {name: ROWS[name][:1] * most for name, most in (("reasons", 21), ("failing", 11), ("lateness", 21))}
    delivered = [row | {"endpoints": 14} for row in ROWS["latency"]]
    html = page(figures(rows | {"latency": delivered}))
    assert re.findall("<p>(only the first .*?|12 faster .*?)</p>", html) == [
        "12 faster endpoints are not shown", "only the first 20 are shown", "only the first 20 are shown",
        "only the first 10 are shown",
    ]  # fmt: skip
    assert (len(cells(html, "Failing endpoints")), len(cells(html, "Why attempts failed"))) == (70, 120)


def test_topics_beyond_the_largest_are_one_bar() -> None:
    """GP-14: strangers make topics."""
    others = [{"topic": None, "at": HOURS[3], "records": 70, "others": 4_000}]
    html = page(figures({"volume": [*ROWS["volume"], *others]}))
    assert "<title>4,000 others, 2026-01-15 03:00: 70</title>" in html
    assert '<b class="">2,753</b>records' in html


def test_a_newest_event_of_the_future_is_told_as_such() -> None:
    """GP-14: it was 0 ms old for ever."""
    html = page(figures({"newest_event": [{"at": BEGIN + timedelta(hours=25)}]}))
    assert (cells(html, "Age of the lake")[2], "1 h in the future</b>age of the newest event" in html) == (
        "1 h in the future",
        True,
    )


def test_a_share_below_the_target_is_not_rounded_up_to_it() -> None:
    """GP-14: 99.996 % were shown as 100.00%, in red."""
    attempted = [ROWS["attempts"][0] | {"attempts": 100_000, "good": 99_996}]
    assert '<b class="bad">99.99%</b>' in page(figures({"attempts": attempted}, target=0.99999))


def test_the_page_forbids_what_it_does_not_need() -> None:
    """GP-14: a second wall behind the escaped text."""
    assert "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"" in page(figures())


@pytest.mark.parametrize(("good", "last"), [(100, 0.0), (99, 1.0), (97, 3.0)])
def test_the_error_budget_is_that_of_the_whole_span(good: int, last: float) -> None:
    """PL-04."""
    assert burn(attempts(HOURS, good), 0.99)[-1] == (HOURS[-1], pytest.approx(last))


@pytest.mark.parametrize(("days", "grain"), [(0, "hour"), (1, "hour"), (7, "hour"), (8, "day"), (28, "day")])
def test_a_bar_stands_for_a_day_where_hours_would_be_too_narrow(days: int, grain: str) -> None:
    assert grain_of([BEGIN.date() + timedelta(days=n) for n in range(days)]) == grain


def test_one_hour_of_data_is_no_dot_in_an_empty_frame() -> None:
    """GP-14: the axis is that of the day that has data, and a line of one point is a row of numbers."""
    html = page(figures({"attempts": attempts(HOURS[9:10])}))
    assert cells(html, "Duration of attempts") == ["2026-01-15 09:00", "100", "4 ms", "30 ms", "200 ms"]
    (first, *_) = re.findall(r'<rect class="c1" x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"', html)
    assert [float(each) for each in first] == pytest.approx([2.9, 35.8], abs=0.1)


def test_a_bar_is_as_high_as_its_number() -> None:
    drawn = bars("", Axis.of(HOURS, timedelta(hours=1)), {"orders": [(HOURS[0], 50), (HOURS[1], 100)]})
    heights = [float(each) for each in re.findall(r'<rect [^>]*height="([0-9.]+)"', drawn)]
    assert heights == pytest.approx([50.0, 100.0])


def test_a_line_ends_where_hours_have_no_value() -> None:
    points = [(HOURS[n], float(n)) for n in (1, 2, 3, 9, 10)]
    drawn = lines("", Axis.of(HOURS, timedelta(hours=1)), {"p50": points})
    assert [each.count(",") for each in re.findall('<polyline [^>]*points="(.*?)"', drawn)] == [3, 2]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, ["0 ms", "50 ms", "100 ms", "150 ms", "200 ms"]), (26.0, ["0 ms", "10 s", "20 s", "30 s"]),
        (830.0, ["0 ms", "5 min", "10 min", "15 min"]), (5_000.0, ["0 ms", "30 min", "1 h", "1 h 30 min"]),
        (400_000.0, ["0 ms", "2 d", "4 d", "6 d"]),
    ],
)  # fmt: skip
def test_an_axis_of_times_has_round_times(seconds: float, shown: list[str]) -> None:
    drawn = lines("", Axis.of(HOURS, timedelta(hours=1)), {"p50": [(HOURS[0], seconds)]}, duration)
    assert re.findall(r'%">([^<]+)<', drawn.partition('class="along"')[0]) == shown


def test_millions_are_short_beside_a_chart() -> None:
    drawn = bars("", Axis.of(HOURS, timedelta(hours=1)), {"orders": [(HOURS[0], 3_000_000)]})
    assert re.findall(r'%">([^<]+)<', drawn.partition('class="along"')[0]) == ["0", "1 M", "2 M", "3 M"]


@pytest.mark.parametrize("highest", [0, 1, 3, 7, 100, 1001, 0.0042])
def test_an_axis_has_round_numbers_up_to_the_highest(highest: float) -> None:
    drawn = bars("", Axis.of(HOURS, timedelta(hours=1)), {"orders": [(HOURS[0], highest)]})
    ticks = [
        float(each.replace(",", "")) for each in re.findall(r'%">([0-9.,]+)<', drawn.partition('class="along"')[0])
    ]
    assert (ticks[0], ticks[-1] >= highest, 2 <= len(ticks) <= 6, len(set(ticks)) == len(ticks)) == (
        0,
        True,
        True,
        True,
    )
