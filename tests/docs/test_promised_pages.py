"""Findings whose cure is a page: the page says what it must, where a reader meets it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


@pytest.mark.parametrize("name", ["how-to/migrate-from-goharvest.md", "how-to/mariadb.md"])
def test_a_page_whose_relay_sends_transactions_tells_consumers_what_to_read(name: str) -> None:
    """FM-07: read committed records only; the idempotent mode is the offer for consumers that cannot."""
    section = " ".join(
        re.split(r"^#{2,3} ", page(name).partition("What consumers see\n")[2], flags=re.MULTILINE)[0].split()
    )
    words = ("**Set `isolation.level=read_committed` in every consumer.**", "HOOKWIRE_KAFKA_MODE=idempotent")

    assert [word for word in words if word not in section] == []


def test_the_page_on_the_amqp_source_names_each_reason_of_a_refusal() -> None:
    """FM-03: an operator who sees a reason in the metric finds it on the page."""
    sources = [(DOCS.parent / name).read_text("utf-8") for name in ("hub/intake.py", "relay/amqp/incoming.py")]
    reasons = {reason for text in sources for reason in re.findall(r'IntakeRefused\(\s*"(\w+)"', text)}
    section = page("how-to/amqp-source.md").partition("## What is refused")[2].partition("\n## ")[0]

    assert (len(reasons) > 7, [reason for reason in sorted(reasons) if f"`{reason}`" not in section]) == (True, [])


def test_the_page_on_the_amqp_source_names_each_reason_why_a_header_is_left_out() -> None:
    """GW-02: an operator who sees a reason in the metric finds it on the page."""
    names = ("hub/intake.py", "relay/amqp/incoming.py", "relay/amqp/incoming_header.py")
    sources = "".join((DOCS.parent / name).read_text("utf-8") for name in names)
    reasons = set(re.findall(r'left_out\.append\("(\w+)"\)|left_out \+ \("(\w+)",\)', sources))
    words = {word for pair in reasons for word in pair if word}
    section = page("how-to/amqp-source.md").partition("## What a message becomes")[2].partition("\n## ")[0]

    assert (len(words) > 9, [word for word in sorted(words) if f"`{word}`" not in section]) == (True, [])


def test_the_page_on_time_names_the_clock_of_each_stamp() -> None:
    """FM-13: scale, leap seconds, and clock and resolution of each transport's stamp; how an interval is measured."""
    text = page("explanation/time.md")
    stamps = {row[3] for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (.+) \|$", text, re.MULTILINE)[1:]}

    assert stamps >= {
        "`accepted_at`, `hookwire-accepted-at`", "the record's timestamp", "the property `timestamp`",
        "`webhook-timestamp`", "`ce-time`, passed on as it is",
    }  # fmt: skip
    assert [word for word in ("UTC", "leap seconds", "## Measure an interval") if word not in text] == []


def test_the_page_of_patterns_leads_to_a_feature_for_each() -> None:
    """FM-13: no row is empty, and each link leads to a page that is there."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page("explanation/patterns.md"), re.MULTILINE)[1:]
    links = {link.partition("#")[0] for _, cell in rows for link in re.findall(r"\]\(([^)]+)\)", cell)}

    assert (len(rows) > 15, [link for link in links if not (DOCS / "explanation" / link).exists()]) == (True, [])


def test_the_pages_send_readers_to_live_live_brokers_before_a_pair() -> None:
    """ZU-24: the first sentence about a pair, and the table of patterns."""
    patterns, first = page("explanation/which-pattern.md"), page("how-to/binary-star.md").splitlines()[2]

    assert first.startswith("Use [two live-live brokers](majordomo.md#two-brokers) unless")
    assert 0 < patterns.index("live-live") < patterns.index("Binary Star")
