"""Pages that list reasons of the code, or lead to pages: each reason is there, and each link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
INTAKE = ("hub/intake/messages.py", "hub/intake/drafts.py")


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def test_the_page_on_the_amqp_source_names_each_reason_of_a_refusal() -> None:
    """FM-03: an operator who sees a reason in the metric finds it on the page."""
    sources = [(DOCS.parent / name).read_text("utf-8") for name in (*INTAKE, "relay/amqp/incoming.py")]
    reasons = {reason for text in sources for reason in re.findall(r'IntakeRefused\(\s*"(\w+)"', text)}
    section = page("how-to/amqp-source.md").partition("## What is refused")[2].partition("\n## ")[0]

    assert (len(reasons) > 7, [reason for reason in sorted(reasons) if f"`{reason}`" not in section]) == (True, [])


def test_the_page_on_the_amqp_source_names_each_reason_why_a_header_is_left_out() -> None:
    """GW-02: an operator who sees a reason in the metric finds it on the page."""
    names = (*INTAKE, "relay/amqp/incoming.py", "relay/amqp/incoming_header.py")
    sources = "".join((DOCS.parent / name).read_text("utf-8") for name in names)
    reasons = set(re.findall(r'left_out\.append\("(\w+)"\)|left_out \+ \("(\w+)",\)', sources))
    words = {word for pair in reasons for word in pair if word}
    section = page("how-to/amqp-source.md").partition("## What a message becomes")[2].partition("\n## ")[0]

    assert (len(words) > 9, [word for word in sorted(words) if f"`{word}`" not in section]) == (True, [])


def test_the_page_on_the_kafka_source_names_each_reason_of_a_refusal() -> None:
    """An operator who sees a reason in the metric finds it on the page."""
    names = ("hub/intake/records.py", "hub/intake/drafts.py", "relay/kafka/source/incoming.py")
    sources = "".join((DOCS.parent / name).read_text("utf-8") for name in names)
    reasons = set(re.findall(r'IntakeRefused\(\s*"(\w+)"', sources))
    section = page("how-to/kafka-source.md").partition("## What is refused")[2].partition("\n## ")[0]

    assert (len(reasons) > 3, [one for one in sorted(reasons) if f"`{one}`" not in section]) == (True, [])


def test_the_page_on_the_kafka_source_names_each_reason_why_a_header_is_left_out() -> None:
    """An operator who sees a reason in the metric finds it on the page."""
    names = ("hub/intake/drafts.py", "relay/kafka/source/incoming.py", "relay/amqp/incoming_header.py")
    sources = "".join((DOCS.parent / name).read_text("utf-8") for name in names)
    reasons = set(re.findall(r'left_out\.append\("(\w+)"\)|left_out \+ \("(\w+)",\)', sources))
    words = {word for pair in reasons for word in pair if word} - {"depth"}  # of tables; Kafka's headers are bytes
    section = page("how-to/kafka-source.md").partition("## What a record becomes")[2].partition("\n## ")[0]

    assert (len(words) > 3, [word for word in sorted(words) if f"`{word}`" not in section]) == (True, [])


def test_the_page_of_patterns_leads_to_a_feature_for_each() -> None:
    """FM-13: no row is empty, and each link leads to a page that is there."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page("explanation/patterns.md"), re.MULTILINE)[1:]
    links = {link.partition("#")[0] for _, cell in rows for link in re.findall(r"\]\(([^)]+)\)", cell)}

    assert (len(rows) > 15, [link for link in links if not (DOCS / "explanation" / link).exists()]) == (True, [])
