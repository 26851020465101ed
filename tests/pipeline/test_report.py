"""The report's page: one file, nothing fetched, nothing of a stranger's left as markup."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline.report.figures import AttemptCounts, Figures, burn
from pipeline.report.page import page

BEGIN = datetime(2026, 1, 15, tzinfo=UTC)
HOURS = [BEGIN + timedelta(hours=n) for n in range(24)]
AUDIT: Mapping[str, Any] = {
    "since": "2026-01-15T00:00:00+00:00", "until": "2026-01-16T00:00:00+00:00", "records": 2424, "cells": 96,
    "unequal": 1, "unjudged": [], "count": 1,
    "findings": [{"fault": "lost", "topic": "<b>orders</b>", "hour": "2026-01-15T09:00:00+00:00", "count": 1,
                  "examples": ["evt_k3v7q2ha_42"]}],
}  # fmt: skip


def figures(**changes: Any) -> Figures:
    values: dict[str, Any] = {
        "since": BEGIN, "until": BEGIN + timedelta(days=1), "made_at": BEGIN + timedelta(days=1),
        "volume": {"<b>orders</b>": {hour: 100 + hour.hour for hour in HOURS}, "carts": {HOURS[3]: 7}},
        "attempts": [AttemptCounts(hour, 100, 99 - hour.hour % 3, 4, 1, (0.004, 0.03, 0.2)) for hour in HOURS],
        "anomalies": [{"kind": "spike", "topic": "carts", "hour": HOURS[3], "records": 7, "median": 0, "distance": 7}],
        "failing": [{"subscription": "sub_<a>", "attempts": 9, "failed": 3, "share": 1 / 3, "dead": 1}], "audit": AUDIT,
    }  # fmt: skip
    return Figures(**values | changes)


def test_the_page_shows_each_part_and_fetches_nothing() -> None:
    html = page(figures())
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Volume", "Latency", "Attempts and retries", "Error budget", "Failing endpoints", "Anomalies of volume",
        "Audit",
    ]  # fmt: skip
    assert (html.count("<svg"), re.findall(r"https?://|<script|src=|@import", html)) == (4, [])
    assert ("<b>orders</b>" in html, html.count("&lt;b&gt;orders&lt;/b&gt;") > 24) == (False, True)
    assert "evt_k3v7q2ha_42" in html
    assert "<td>sub_&lt;a&gt;</td><td>9</td><td>3</td><td>33.3%</td><td>1</td>" in html


def test_a_hub_that_has_done_nothing_yet_has_a_page_too() -> None:
    html = page(figures(volume={}, attempts=[], anomalies=[], failing=[], audit=None))
    assert (html.count("<svg"), "not run" in html) == (0, True)


@pytest.mark.parametrize(("good", "last"), [(100, 0.0), (99, 1.0), (97, 3.0)])
def test_the_error_budget_is_that_of_the_whole_span(good: int, last: float) -> None:
    """PL-04."""
    hours = [AttemptCounts(hour, 100, good, 0, 0, (0.0, 0.0, 0.0)) for hour in HOURS]
    assert burn(hours, 0.99)[-1] == (HOURS[-1], pytest.approx(last))


def test_a_bar_is_as_high_as_its_number() -> None:
    (tallest, *rest) = sorted((float(h) for h in re.findall(r'<rect [^>]*height="([0-9.]+)"', page(figures(
        volume={"orders": {HOURS[0]: 50, HOURS[1]: 100}}, attempts=[])))), reverse=True)  # fmt: skip
    assert [tallest] == pytest.approx([2 * height for height in rest], abs=0.3)
