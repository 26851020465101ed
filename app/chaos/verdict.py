"""Verdict: the result of ``hookwire prove`` as a sentence, as a table with a legend, and as JSON. Pure.

::

    PASS          the promise held: every accepted event arrived at every sink, each key in order
    FAIL          a promise was broken, or a process failed
    NOT FINISHED  no promise was broken, but events are on their way, or a fault could not take place in time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from app.chaos.checker import VIOLATIONS, Promise, Report, SinkReport
from app.chaos.nemesis import Harm
from app.chaos.plan import FaultKind

__all__ = [
    "COLUMNS", "FAULTS", "LEGEND", "PROMISES", "SINKS", "ProveOutcome", "ProveRun", "document", "duplicated",
    "evidence", "legend", "reordered", "sentence", "summary", "table",
]  # fmt: skip

_ORDER = ("inverted", "duplicate_forbidden", "sequence_disorder", "stale_term")
COLUMNS = {
    "delivered": "delivered",
    "dead_lettered": "dead letters",
    "on_their_way": "on their way",
    "lost": "lost",
    "invented": "invented",
    "duplicate_adjacent": "repeated",
    "duplicate_non_adjacent": "repeated later",
    "inverted": "out of order",
    "duplicate_forbidden": "forbidden repeats",
    "sequence_disorder": "wrong sequence",
    "stale_term": "stale leader",
}
"""The heading of each count of a sink."""
LEGEND = {
    "accepted": "answered with 2xx, or committed by SQL",
    "delivered": "accepted events that arrived",
    "dead letters": "events that were given up with a reason",
    "on their way": "accepted events that have yet to arrive; by the database, the sink is still owed them",
    "lost": "accepted events that neither arrived, nor became dead letters, nor are on their way; must be 0",
    "invented": "arrivals without a publish, or whose publish was refused; must be 0",
    "repeated": "repeats that directly follow their event; allowed after a fault",
    "repeated later": "other repeats; allowed where the sink's promise says so",
    "out of order": "first arrivals behind a later event of the same key, also if still to come; must be 0",
    "forbidden repeats": "repeats that the sink's promise excludes; must be 0",
    "wrong sequence": "sequence numbers that do not rise with the commits of a key; must be 0",
    "stale leader": "records of a former leader behind those of its successor; must be 0",
}
"""The meaning of each head of the table."""
SINKS = {
    "ordered": "a webhook subscription that wants each key in order",
    "plain": "a webhook subscription without order",
    "archive": "the hub's own store of events, read by SQL at the end",
    "amqp": "a queue of a RabbitMQ that the run has started",
}
"""The meaning of each sink's name."""
FAULTS = {
    FaultKind.KILL: "SIGKILL to the process that relays, which is started again",
    FaultKind.TAKE_OVER: "that process is paused until another relays, then goes on and has to be refused",
    FaultKind.DRAIN: "SIGTERM to that process, which has to hand over and end",
    FaultKind.FAILPOINT: "that process dies at a step of its work, at the named passing",
    FaultKind.DATABASE: "the database's server ends, and is started again",
    FaultKind.UNBIND: "for a while no queue takes the messages of the AMQP exchange",
    FaultKind.DISCONNECT: "the AMQP broker drops every connection",
}
"""The meaning of each fault's name."""
PROMISES = {
    Promise.RECORD: "each key in order; a repeat directly follows its event",
    Promise.BATCH: "each key in order; repeats are whole runs",
    Promise.UNORDERED: "at least once, in any order",
}


class ProveOutcome(StrEnum):
    """The verdict in a word; its name in JSON is in lower case."""

    PASS = "PASS"  # noqa: S105 - no password
    FAIL = "FAIL"
    NOT_FINISHED = "NOT FINISHED"


@dataclass(slots=True)
class ProveRun:
    """The result of a run. ``unfinished``: waits that reached their limit; a busy machine may be the reason."""

    seed: int
    seconds: float = 0.0
    harms: list[Harm] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    report: Report | None = None
    unfinished: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> ProveOutcome:
        """Return the verdict: PASS only for a run that is finished, and FAIL only for a defect that was seen."""
        if self.failures or self.crashes or (self.report is not None and not self.report.holds):
            return ProveOutcome.FAIL
        if self.unfinished or (self.report is not None and self.report.total("on_their_way")):
            return ProveOutcome.NOT_FINISHED
        return ProveOutcome.FAIL if self.report is None else ProveOutcome.PASS

    @property
    def holds(self) -> bool:
        """Return whether the promise held, the run is finished, and no process failed."""
        return self.outcome is ProveOutcome.PASS

    @property
    def is_broken(self) -> bool:
        """Return whether the counts show a broken promise while all processes ran. Only this finds a seeded bug."""
        return not self.crashes and self.report is not None and not self.report.holds


def duplicated(report: Report) -> int:
    """Return the number of repeats, summed over the sinks."""
    return report.total("duplicate_adjacent") + report.total("duplicate_non_adjacent")


def reordered(report: Report) -> int:
    """Return the number of arrivals out of order, summed over the sinks."""
    return sum(report.total(kind) for kind in _ORDER)


def summary(report: Report) -> str:
    """Return the counts in one line, also for programs."""
    delivered = min(sink.delivered for sink in report.sinks)
    on_their_way = report.total("on_their_way")
    return (
        f"accepted={report.accepted} delivered={delivered} lost={report.total('lost')} "
        f"duplicated={duplicated(report)} reordered={reordered(report)}"
        + (f" on_their_way={on_their_way}" if on_their_way else "")
    )


def sentence(run: ProveRun) -> str:
    """Return the verdict as a sentence."""
    report, faults = run.report, f"{len(run.harms)} fault{'' if len(run.harms) == 1 else 's'}"
    if run.outcome is ProveOutcome.NOT_FINISHED:
        return _unfinished(report, faults)
    if run.holds and report is not None:
        arrived = "arrived at every sink" + (" or became a dead letter" if report.total("dead_lettered") else "")
        return (
            f"PASS: {report.accepted:,} events were accepted during {faults} and each {arrived}; "
            "nothing was lost and no key was out of order."
        )
    if report is None:
        return f"FAIL: the run ended before its events could be counted, after {faults}."
    if report.holds:
        return f"FAIL: the counts are right, but a process failed during {faults}."
    broken = [f"{COLUMNS[kind]}: {report.total(kind)}" for kind in VIOLATIONS if report.total(kind)]
    if report.unknown_half_present:
        broken.append(f"at some sinks only: {report.unknown_half_present}")
    return f"FAIL: a promise was broken during {faults}: {', '.join(broken)}."


def _unfinished(report: Report | None, faults: str) -> str:
    if report is None:
        return f"NOT FINISHED: the run ended before its events could be counted, after {faults}."
    return (
        f"NOT FINISHED: {report.total('on_their_way'):,} on their way; {report.accepted:,} events were accepted during "
        f"{faults}, nothing was lost, and all arrivals were in order."
    )


def legend(run: ProveRun) -> dict[str, str]:
    """Return the meaning of each word that the run has printed: heads, sinks, promises and faults."""
    sinks = run.report.sinks if run.report is not None else ()
    promises, faults = {sink.promise for sink in sinks}, {harm.fault.kind for harm in run.harms}
    return {
        **LEGEND,
        **{f"sink {sink.sink}": SINKS[sink.sink] for sink in sinks if sink.sink in SINKS},
        **{f"promise {each}": text for each, text in PROMISES.items() if each in promises},
        **{str(each): text for each, text in FAULTS.items() if each in faults},
    }


def table(sinks: Sequence[SinkReport]) -> list[list[str]]:
    """Return a row of heads, then a row for each sink."""
    rows = [[sink.sink, str(sink.promise), *(str(getattr(sink, name)) for name in COLUMNS)] for sink in sinks]
    return [["sink", "promise", *COLUMNS.values()], *rows]


def evidence(report: Report) -> list[str]:
    """Return the first finding of each kind and sink that broke the promise."""
    first: dict[tuple[str, str], str] = {}
    for finding in report.findings:
        if finding.kind in (*VIOLATIONS, "unknown_half_present"):
            text = f"{finding.kind} at {finding.sink}: {finding.mark} {finding.detail}".strip()
            first.setdefault((finding.kind, finding.sink), text)
    return list(first.values())


def document(run: ProveRun) -> dict[str, object]:
    """Return the whole result as a JSON-ready mapping."""
    return {
        "holds": run.holds,
        "outcome": run.outcome.lower(),
        "verdict": sentence(run),
        "seed": run.seed,
        "seconds": round(run.seconds, 1),
        "failures": run.failures,
        "crashes": run.crashes,
        "unfinished": run.unfinished,
        "faults": [asdict(harm) for harm in run.harms],
        "report": asdict(run.report) if run.report is not None else None,
    }
