"""The audit on the page: its findings, what it left out, and what the database notes of the last one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html import escape

from pipeline.report.figures import Figures, Row
from pipeline.report.markup import moment, nothing, table

__all__ = ["COUNTS", "LISTS", "audit_content", "audit_tile", "left_out"]

COUNTS = ("count", "records", "cells", "unequal", "remembered", "outside", "unproved", "unsealed", "erased")
"""The numbers that the page needs of the output of ``audit --json``."""
LISTS = ("findings", "unjudged", "lake", "unconfirmed", "deleted")
"""The lists that it needs."""


def audit_tile(figures: Figures) -> tuple[str, str, str]:
    """Return label, value and mood of the tile."""
    if figures.audit is not None:
        count = figures.audit["count"]
        return "audit findings", f"{count:,}", "bad" if count else "good"
    if (last := figures.last_audit) is not None:
        code = last["exit_code"]
        return f"last audit, {last['ended_at']:%b} {last['ended_at'].day}", f"exit {code}", "bad" if code else "good"
    return "audit", "not run", ""


def audit_content(figures: Figures) -> str:
    """Return the sum of the audit, and its findings as a table."""
    if (audit := figures.audit) is None:
        return nothing(_last(figures.last_audit))
    words = (
        f"{audit['records']:,} records in {audit['cells']:,} cells from {_hours(audit)}, {audit['unequal']:,} cells "
        f"unequal; {audit['remembered']:,} records of days that were proved before; {audit['count']:,} findings"
    )
    rows = [
        (
            one["fault"],
            _place(figures, one),
            datetime.fromisoformat(one["hour"]),
            one["count"],
            " ".join(one["examples"]),
        )
        for one in audit["findings"]
    ]
    found = table(("Finding", "Topic", "Hour (UTC)", "#Count", "Events"), rows) if rows else ""
    lake = "".join(f"<li>{escape(sentence)}</li>" for sentence in audit["lake"])
    return f'<p class="{"bad" if audit["count"] else "good"}">{escape(words)}</p>{found}' + (
        f"<ul>{lake}</ul>" if lake else ""
    )


def left_out(figures: Figures) -> str:
    """Return a list of what the audit did not compare or could not prove."""
    if figures.audit is None:
        return nothing("hookwire pipeline report --audit FILE shows it, with the output of the command below")
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in _left_out(figures.audit))
    return f"<ul>{items}</ul>"


def _left_out(audit: Row) -> Iterator[str]:
    yield f"events that were accepted before or after these hours: {_hours(audit)}"
    for days in audit["deleted"]:
        topic = days["topic"] or "all topics"
        yield (
            f"{topic}: {days['events']:,} events in {days['cells']:,} cells of days before {days['before']}, which "
            f"retention deleted ({days['verdict']})"
        )
    for number, words in (
        (audit["outside"], "records in the lake that belong to other hours"),
        (len(audit["unjudged"]), "unjudged cells, which differ, and whose events are gone or too many"),
        (audit["unproved"], "cells whose contents the ledger does not know, or that were partly erased"),
        (audit["unsealed"], "records that no seal proves"),
        (audit["erased"], "erased events, of which only the place is compared"),
        (len(audit["unconfirmed"]), "unconfirmed erasures, of which the database knows nothing"),
    ):
        if number:
            yield f"{words}: {number:,}"


def _hours(audit: Row) -> str:
    since, until = (datetime.fromisoformat(audit[name]) for name in ("since", "until"))
    return f"{moment(since)} to {moment(until)} UTC"


def _last(last: Row | None) -> str:
    how = "hookwire pipeline audit --json > audit.json, then --audit audit.json, shows its findings here"
    if last is None:
        return f"not run: {how}"
    counts = f"{last['findings']:,} findings, {last['not_compared']:,} not compared"
    ended = f"exit {last['exit_code']}, {last['reason'] or counts}"
    return f"the last audit ended at {moment(last['ended_at'])} UTC: {ended}; {how}"


def _place(figures: Figures, found: Row) -> str:
    subscription = found.get("subscription")
    return f"{found['topic']} to {figures.called(subscription)} ({subscription})" if subscription else found["topic"]
