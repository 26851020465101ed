"""The audit on the page: its findings, what it left out, and what the database notes of the last one."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from pipeline.audit.inquiry import OTHER_KEY
from pipeline.report.figures import SHOWN_MAX, Figures, Row
from pipeline.report.markup import counted, first, moment, nothing, table

__all__ = ["audit_content", "audit_tile", "left_out"]

_EXAMPLES_MAX: Final = 10


def audit_tile(figures: Figures) -> tuple[str, str, str]:
    """Return label, value and mood of the tile."""
    if (audit := figures.audit) is not None:
        if audit["exit_code"] == 2:
            return "things not compared by the audit", f"{audit['count'] - audit['found']:,}", ""
        return "audit findings", f"{audit['found']:,}", "bad" if audit["found"] else "good"
    last = figures.last_audit
    if last is None or last["ended_at"] is None:
        return "audit", "not run" if last is None or last["failed_at"] is None else "failed", ""
    mood = {0: "good", 1: "bad"}.get(last["exit_code"], "")
    return f"last audit, {last['ended_at']:%b} {last['ended_at'].day}", f"exit {last['exit_code']}", mood


def audit_content(figures: Figures) -> str:
    """Return the sum of the audit, and its findings as a table."""
    if (audit := figures.audit) is None:
        return nothing(_last(figures.last_audit))
    words = (
        f"{counted(audit['records'], 'record')} in {counted(audit['cells'], 'cell')} from {_hours(audit)}, "
        f"{counted(audit['unequal'], 'cell')} unequal; {counted(audit['remembered'], 'record')} of days that were "
        f"proved before; {counted(audit['found'], 'finding')}. The audit ended at {moment(audit['ended_at'])} UTC with "
        f"exit code {audit['exit_code']}"
    )
    found, more = first(audit["findings"], SHOWN_MAX)
    rows = [(one["fault"], _place(figures, one), one["hour"], one["count"], _events(one)) for one in found]
    sentences, more_sentences = first(audit["lake"], SHOWN_MAX)
    mood = {0: "good", 1: "bad"}.get(audit["exit_code"], "")
    return (
        f'<p class="{mood}">{escape(words)}</p>'
        + (table(("Finding", "Topic", "Hour (UTC)", "#Count", "Events"), rows) + more if rows else "")
        + (f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>{more_sentences}" if sentences else "")
    )


def _events(found: Row) -> str:
    more = len(found["examples"]) - _EXAMPLES_MAX
    return " ".join(found["examples"][:_EXAMPLES_MAX]) + (f" and {more:,} more in the file" if more > 0 else "")


def left_out(figures: Figures) -> str:
    """Return a list of what the audit did not compare or could not prove."""
    if figures.audit is None:
        return nothing("hookwire pipeline report --audit FILE shows it, with the output of the command below")
    sentences, more = first(list(_left_out(figures.audit)), SHOWN_MAX)
    return f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>{more}"


def _left_out(audit: Row) -> Iterator[str]:
    yield f"events that were accepted before or after these hours: {_hours(audit)}"
    if not audit["cells"] and not audit["remembered"]:
        yield "everything: the ledger has no event for Kafka in these hours"
    of_other_keys = sum(one["count"] for one in audit["findings"] if one["fault"] == OTHER_KEY)
    for number, words in (
        (audit["unarchived"], "offsets that the archive has not read yet, which were read from Kafka"),
        (audit["outside"], "records in the lake that belong to other hours"),
        (audit["aged"], "records of days that the ledger does not cover and no audit has proved"),
        (len(audit["unjudged"]), "unjudged cells, which differ, and whose events are gone or too many"),
        (audit["unproved"], "cells whose contents the ledger does not know, or that were partly erased"),
        (audit["unsealed"], "records that no seal proves"),
        (of_other_keys, "records with a seal of a key that is not here"),
        (audit["erased"], "erased events, of which only the place is compared"),
        (len(audit["unconfirmed"]), "unconfirmed erasures, of which the database knows nothing"),
    ):
        if number:
            yield f"{words}: {number:,}"
    for confirmed in audit["confirmed"]:
        yield f"a day older than the ledger, which a person confirmed: {confirmed}"
    for days in audit["deleted"]:
        topic = days["topic"] or "all topics"
        yield (
            f"{topic}: {counted(days['events'], 'event')} in {counted(days['cells'], 'cell')} of days before "
            f"{days['before']}, which retention deleted ({days['verdict']})"
        )


def _hours(audit: Row) -> str:
    return f"{moment(audit['since'])} to {moment(audit['until'])} UTC"


def _last(last: Row | None) -> str:
    how = "hookwire pipeline audit --json > audit.json, then --audit audit.json, shows its findings here"
    if last is None:
        return f"not run: {how}"
    said = []
    if (ended_at := last["ended_at"]) is not None:
        counts = f"{counted(last['findings'], 'finding')}, {last['not_compared']:,} not compared"
        said.append(f"the last audit ended at {moment(ended_at)} UTC: exit {last['exit_code']}, {counts}")
    if (failed_at := last["failed_at"]) is not None:
        said.append(f"an audit failed at {moment(failed_at)} UTC: {last['failure']}")
    return "; ".join([*said, how] if said else [f"no audit has ended yet: {how}"])


def _place(figures: Figures, found: Row) -> str:
    topic: str = found["topic"]
    if (subscription := found.get("subscription")) is None:
        return topic
    name = figures.called(subscription)
    return f"{topic} to {subscription}" if name == subscription else f"{topic} to {name} ({subscription})"
