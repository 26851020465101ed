"""Judge: facts in, verdict out. Pure; the rule for subscriptions is that of :mod:`webhooks.condition`.

======================  ==========================================================================================
a sink is *paused*      a person paused it; whatever else is wrong with it is told beside
a sink is *down*        a process reports that its broker does not answer or is refused, or no relay carries it
a source is *down*      the process that reads it reports a failure, or nobody reads it, or has a partition of it
a pattern *fails*       nobody reads a Kafka topic that fits it
a publisher *fails*     its hub has denied or not verified our subscription, or its topic cannot be fetched
a source has *dead*     records or messages that it refused, for a day; it is *held* while such a record holds keys
something is *late*     the oldest has waited for more than a minute (sinks, services) or five (queues, tasks, jobs)
work *fails*            the oldest that failed twice and waits for its next try is older than that
a lake *fails*          its last audit had findings, or a later one failed with 1; it is *late* if events of three days
                        ago were not audited
a backfill *fails*      it stopped or was interrupted; it is *down* if no process carries it on
dead letters count      for a day, unless a person gave them up or the subscription has ended
======================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, cast

from app.verdict.backfills import backfill_parts
from app.verdict.facts import COUNTED_MAX, TRIED_MAX, WORST_MAX, Facts, Row
from app.verdict.lakes import lake_parts
from app.verdict.verdict import Part, PartKind, PartState, Verdict
from webhooks.condition import format_duration, format_moment, subscription_condition

__all__ = ["judge"]

_LATE_SECONDS: Final = {"sink": 60.0, "queue": 300.0, "task": 300.0, "job": 300.0, "service": 60.0}
_STARTING_SECONDS: Final = 15.0
_UNASSIGNED_SECONDS: Final = 60.0
_RANKS: Final = {"refusing": -1, "passing over": -1, "backing off": 1, "idle": 2}
_TOLD_STATES: Final[dict[str, PartState]] = {"refusing": "dead", "passing over": "failing"}
_FORGET: Final = "if it shall not be read, run: hookwire sources forget"
_DEAD_FOR: Final = timedelta(days=1)
_SINK_NAMES: Final = {"kafka": "Kafka", "amqp": "AMQP"}
_SETTINGS: Final = {"kafka": "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", "amqp": "HOOKWIRE_AMQP_URL"}
_HEALTH_STATES: Final = {"failing", "slow", "behind", "paused", "disabled"}


def judge(facts: Facts) -> Verdict:
    """Return the verdict. A subscription, a hold and a dead letter are told only where something is wrong."""
    return Verdict.on(
        facts,
        [
            *(_sink(row, facts) for row in facts.sinks),
            *_sources(facts),
            *_publishers(facts),
            *_holds(facts),
            *_subscriptions(facts),
            _deliveries(facts),
            *_dead_letters(facts),
            *(_work(cast("PartKind", kind), row, facts.at) for kind, rows in facts.work.items() for row in rows),
            *lake_parts(facts.lakes, facts.at),
            *backfill_parts(facts.backfills),
            *(Part("facts", name, "unknown", "this could not be read in time") for name in facts.unknown),
        ],
    )


# --- sinks and sources ---------------------------------------------------------------------------------------------


def _sink(row: Row, facts: Facts) -> Part:
    name, waiting = row["sink"], row["backlog"] + row["held"]
    state, reason, since = _sink_state(row, facts)
    waits = f"{_count(waiting, 'event')} wait{'s' * (waiting == 1)}" if waiting and state != "ok" else None
    return Part(
        "sink", name, state, "; ".join(filter(None, (reason[0], waits, *reason[1:]))), since,
        waiting=waiting, oldest_at=row["oldest_at"],
    )  # fmt: skip


_Judged = tuple[PartState, Sequence[str], datetime | None]


def _sink_state(row: Row, facts: Facts) -> _Judged:
    """Return the state, the parts of the reason, and since when."""
    name = row["sink"]
    if not row["configured"]:
        setting = f"; set {_SETTINGS[name]}" if name in _SETTINGS else ""
        return "disabled" if row["backlog"] else "absent", (f"not configured{setting}",), None
    bad = next((report for report in facts.processes if _is_bad_sink(report, name)), None)
    return _paused(row, bad) if row["paused_at"] is not None else _flowing(row, bad, facts)


def _paused(row: Row, bad: Row | None) -> _Judged:
    """Return the judgement on a sink that a person has paused, with what else is wrong."""
    reason = f": {row['pause_reason']}" if row["pause_reason"] else ""
    words = f"paused by {row['paused_by']} since {format_moment(row['paused_at'])}{reason}"
    why = (_why_down(row["sink"], bad),) if bad is not None else ("no relay carries it",) if not row["led"] else ()
    return "paused", (words, *why), row["paused_at"]


def _flowing(row: Row, bad: Row | None, facts: Facts) -> _Judged:
    """Return the judgement on a sink that shall be carried."""
    name = row["sink"]
    if bad is not None:
        return "down", (_why_down(name, bad), bad["reason"]), bad["since"]
    if not row["led"] and any(_has_just_begun(report, name, facts.at) for report in facts.processes):
        return "ok", ("a relay has just started and will carry it",), None
    if not row["led"]:
        return "down", ("no relay carries it; is one running?",), None
    seconds = _age(row["oldest_at"], facts.at)
    if seconds > _LATE_SECONDS["sink"]:
        return "late", (f"the oldest has waited for {format_duration(seconds)}",), row["oldest_at"]
    return "ok", (f"{row['owner']} carries it",), None


def _has_just_begun(report: Row, name: str, now: datetime) -> bool:
    """Return whether a relay of this sink started so lately that the lease of the one before it may still run."""
    return _is_of_sink(report, name) and _age(report["since"], now) < _STARTING_SECONDS


def _is_of_sink(report: Row, name: str) -> bool:
    return bool(report["is_alive"] and (report["kind"], report["name"]) == ("sink", name))


def _is_bad_sink(report: Row, name: str) -> bool:
    return _is_of_sink(report, name) and report["state"] in ("refused", "backing off")


def _why_down(name: str, report: Row) -> str:
    since = format_moment(report["since"])
    if report["state"] == "refused":
        return f"it is refused since {since}"
    return f"{_SINK_NAMES[name]} does not answer since {since}" if name in _SINK_NAMES else f"it fails since {since}"


def _sources(facts: Facts) -> Iterator[Part]:
    """Yield each queue and Kafka topic that is read, by the best report of a process about it, or that has refused."""
    reports: dict[str, list[Row]] = {}
    for report in facts.processes:
        if report["kind"] == "source":
            reports.setdefault(report["name"], []).append(report)
    refused = {row["source"]: row for row in facts.refusals}
    for name in dict.fromkeys((*reports, *refused)):
        yield _source(name, reports.get(name, ()), refused.get(name), facts.at)


def _source(name: str, told: Sequence[Row], refused: Row | None, now: datetime) -> Part:
    read: tuple[PartState, str, datetime | None] = ("ok", "no process has read it for an hour", None)
    state, reason, since = _reading(told, now) if told else read
    if refused is None:
        return Part("source", name, state, reason, since)
    words = [] if state == "ok" else [reason]
    if refused["holding"]:
        held_since = format_moment(refused["holding_since"])
        words.append(f"{_refused(refused, 'holding', 'hold keys', 'holds a key')} since {held_since}")
    if refused["refused"]:
        latest = format_moment(refused["refused_at"])
        words.append(f"{_refused(refused, 'refused', 'were', 'was')} kept in the last day, the latest at {latest}")
    if state == "ok":
        state, since = ("held", refused["holding_since"]) if refused["holding"] else ("dead", refused["refused_at"])
    return Part(
        "source", name, state, "; ".join(words), since, waiting=refused["holding"], dead=refused["refused"],
        bound=refused["bound"],
    )  # fmt: skip


def _refused(row: Row, column: str, many: str, one: str) -> str:
    number = row[column]
    return f"{_number(number, row['bound'])} refused record{'s' * (number != 1)} {one if number == 1 else many}"


def _reading(told: Sequence[Row], now: datetime) -> tuple[PartState, str, datetime]:
    """Return the state of what a source reads, the reason, and since when."""
    best = min(told, key=lambda report: (not report["is_alive"], _RANKS.get(report["state"], 0), report["since"]))
    since = best["since"]
    if not best["is_alive"]:
        return _unread(max(told, key=lambda report: report["until"]), now)
    if best["state"] == "backing off":
        return "down", f"it is not read since {format_moment(since)}; {best['reason']}", since
    if best["state"] == "idle" and _age(since, now) > _UNASSIGNED_SECONDS:
        others = "others in its consumer group have all partitions"
        return "down", f"it is not read since {format_moment(since)}; {others}", since
    if best["state"] == "paused":
        return "paused", f"paused since {format_moment(since)}", since
    if best["state"] in _TOLD_STATES:
        return _TOLD_STATES[best["state"]], best["reason"], since
    return "ok", f"{best['process']} reads it", since


def _unread(last: Row, now: datetime) -> tuple[PartState, str, datetime]:
    """Return the judgement on a source whose last process has stopped, or is gone."""
    until, process = last["until"], last["process"]
    if last["is_paused"]:
        return "paused", f"paused; nobody reads it since {format_moment(until)}", until
    if last["state"] != "left":
        return "down", f"its process {process} is gone since {format_moment(until)}; {_FORGET}", until
    if _age(until, now) < _STARTING_SECONDS:
        return "ok", f"its process {process} has just stopped", until
    return "down", f"nobody reads it since {format_moment(until)}, when {process} stopped; {_FORGET}", until


def _publishers(facts: Facts) -> Iterator[Part]:
    """Yield each topic of another publisher that does not come; one that comes is not told."""
    for row in facts.publishers:
        tries = f"{row['failures']} {'fetches' if row['state'] == 'fetched' else 'requests to its hub'} have failed"
        what = "its hub has denied the subscription" if row["state"] == "denied" else tries
        why = row["reason"] or "no verification came"
        yield Part("source", row["url"], "failing", f"{what}; {why}", row["since"], topic=row["topic"])


def _holds(facts: Facts) -> Iterator[Part]:
    for row in facts.holds[:WORST_MAX]:
        number = row["holds"]
        what = "the whole topic is" if row["scope"] == "topic" else f"{_count(number, row['scope'])} {_are(number)}"
        why = row["detail"] or row["reason"].replace("_", " ")
        reason = f"{what} held since {format_moment(row['since'])}; {why}"
        name = f"{row['sink']} {row['topic']}"
        yield Part("hold", name, "held", reason, row["since"], waiting=row["holds"], topic=row["topic"])


# --- subscriptions -------------------------------------------------------------------------------------------------


def _subscriptions(facts: Facts) -> Iterator[Part]:
    for row in facts.subscriptions:
        found = subscription_condition(row)
        if found.state in _HEALTH_STATES:
            # A pull subscriber fetches when it likes.
            is_unfetched = row["protocol"] == "pull" and found.state == "behind"
            yield Part(
                "subscription", row["public_id"], "unfetched" if is_unfetched else cast("PartState", found.state),
                found.reason, row["failing_since"] or row["waiting_since"], waiting=row["waiting"],
                oldest_at=row["waiting_since"], topic=row["topic"],
            )  # fmt: skip


def _deliveries(facts: Facts) -> Part:
    """All open deliveries together; each subscription is judged by itself."""
    ages = [row["waiting_since"] for row in facts.subscriptions if row["waiting_since"] is not None]
    oldest_at = min([*ages, *filter(None, (facts.oldest_delivery_at,))], default=None)
    waits = f", the oldest for {format_duration(_age(oldest_at, facts.at))}" if oldest_at is not None else ""
    reason = f"{_count(facts.open_deliveries, 'open delivery', 'open deliveries')}{waits}"
    return Part("deliveries", "", "ok", reason, waiting=facts.open_deliveries, oldest_at=oldest_at)


def _dead_letters(facts: Facts) -> Iterator[Part]:
    for row in facts.dead_letters[:WORST_MAX]:
        latest = format_moment(row["died_at"])
        reason = f"{_count(row['letters'], 'dead letter')} in the last day, the latest at {latest}"
        name = row["subscription"] or f"{row['sink']} {row['topic']}"
        yield Part("dead_letters", name, "dead", reason, row["died_at"], dead=row["letters"], topic=row["topic"])


# --- queues, tasks, jobs, services ---------------------------------------------------------------------------------


def _work(kind: PartKind, row: Row, now: datetime) -> Part:
    state, since, reason = _work_state(kind, row, now)
    return Part(
        kind, row["name"], state, reason, since, waiting=row["waiting"], running=row["running"], dead=row["dead"],
        oldest_at=row["oldest_at"], bound=row["bound"],
    )  # fmt: skip


def _work_state(kind: PartKind, row: Row, now: datetime) -> tuple[PartState, datetime | None, str]:
    seconds = _age(row["oldest_at"], now)
    for_long = f", the oldest for {format_duration(seconds)}" if row["oldest_at"] is not None else ""
    died = (
        f"{_number(row['dead'], row['bound'])} dead, the latest at {format_moment(row['died_at'])}"
        if row["died_at"]
        else None
    )
    failed = f"{_number(row['failing'], TRIED_MAX)} failed twice or more"
    fails = f"{failed}, and wait{'s' * (row['failing'] == 1)} for the next try"
    again = f"{fails}, the oldest is {format_duration(_age(row['failing_since'], now))} old" if row["failing"] else None
    waits = f"{_number(row['waiting'], row['bound'])} wait{'s' * (row['waiting'] == 1)}{for_long}"
    numbers = "; ".join(filter(None, (again, waits, f"{row['running']:,} in flight", died)))
    if row["is_paused"]:
        return "paused", None, f"it is paused; {numbers}"
    if _age(row["failing_since"], now) > _LATE_SECONDS[kind]:
        return "failing", row["failing_since"], numbers
    if seconds > _LATE_SECONDS[kind]:
        return "late", row["oldest_at"], numbers
    if row["died_at"] is not None and now - row["died_at"] < _DEAD_FOR:
        return "dead", row["died_at"], numbers
    return "ok", None, numbers


def _age(moment: datetime | None, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds()) if moment is not None else 0.0


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun; a number at the bound may be larger."""
    return f"{_number(number, COUNTED_MAX)} {one if number == 1 else many or one + 's'}"


def _number(number: int, bound: int) -> str:
    return f"{number:,}{'+' * (number >= bound)}"
