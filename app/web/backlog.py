"""Backlog: what waits, runs and was given up, and since when, for ``/metrics``.

Reading the metrics asks for the verdict. So each process shows the backlog of a relay that stands still. Counters
cannot show it, because they only count successes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Gauge

from app.verdict.current_verdict import CurrentVerdict
from app.verdict.facts import COUNTED_MAX, WORK_KINDS, WORST_MAX, Row
from app.verdict.verdict import Part, Verdict, Word
from db.replication.standby_fence import StandbyFence
from runtime.duration_histogram import DurationHistogram
from webhooks.condition import WAITING_MAX, subscription_condition

__all__ = ["Backlog"]

_QUANTILES: Final = (0.5, 0.95, 0.99)
_MOST: Final = f"counted up to {COUNTED_MAX:,}"
_MOST_OF_ONE: Final = f"counted up to {WAITING_MAX:,}"
_MOST_OF_WORK: Final = f"{_MOST} in all, each at least up to 100"


class Backlog:
    """Gauges of one process's registry; the values are those of the latest verdict."""

    def __init__(self, current: CurrentVerdict, registry: CollectorRegistry, fence: StandbyFence | None = None) -> None:
        self._current = current
        self._fence = fence
        self._told: Verdict | None = None

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"hookwire_{name}", text, labels, registry=registry)

        self._answers = gauge("database_up", "Whether the database answered when these metrics were read.")
        if fence is not None:
            self._is_fenced = gauge("standby_fence_holds", "Whether this process waits in vain for a standby.")
        self._word = gauge("verdict", "1 for the word of the verdict, 0 for the others.", "word")
        self._findings = gauge("findings", "Parts that are not as they should be.", "kind", "state")
        self._sinks = (
            gauge("outbox_waiting", f"Records that wait for a sink, {_MOST}.", "sink"),
            gauge("outbox_oldest_seconds", "For how long the oldest record has waited.", "sink"),
            gauge("outbox_led", "Whether a relay leads a group of the sink.", "sink"),
            gauge("outbox_held", f"Records that wait behind a hold, {_MOST}.", "sink"),
            gauge("outbox_paused", "Whether a person has paused the sink.", "sink"),
        )
        self._holds = gauge("holds", f"Keys, topics and single records that are held, {_MOST}.", "sink", "scope")
        self._stalled = gauge("hold_oldest_seconds", "For how long the oldest hold has existed.", "sink")
        self._subscriptions = gauge(
            "subscriptions", f"Subscriptions that fail, are paused or disabled, {_MOST_OF_ONE}.", "health"
        )
        self._troubled = gauge(
            "subscription_troubled",
            f"1 for each of the {WORST_MAX} that fail longest, with the blocker and the last failure.",
            "subscription", "health", "blocked_by", "outcome", "status",
        )  # fmt: skip
        self._failing = gauge(
            "subscription_failing_seconds",
            "For how long each of these subscriptions has failed without a success.",
            "subscription",
        )
        self._open = gauge("deliveries_open", f"Deliveries that are neither delivered nor given up, {_MOST}.")
        self._oldest = gauge("delivery_oldest_seconds", "For how long the oldest of them has waited.")
        self._of_subscriptions = (
            gauge("subscription_waiting", f"Open deliveries of the worst {WORST_MAX}, {_MOST_OF_ONE}.", "subscription"),
            gauge("subscription_oldest_seconds", "For how long the oldest of each has waited.", "subscription"),
        )
        self._times = gauge(
            "subscription_attempt_seconds",
            f"How long attempts of the worst {WORST_MAX} took in the last minutes; failures count, too.",
            "subscription", "quantile",
        )  # fmt: skip
        self._dead = gauge("dead_letters_of_a_day", "Dead letters of a day that were not ended on purpose.", "sink")
        self._work = (
            gauge("work_waiting", f"What waits in each queue, kind or service, {_MOST_OF_WORK}.", "kind", "name"),
            gauge("work_running", f"What is in flight there, {_MOST}.", "kind", "name"),
            gauge("work_dead", f"What was given up there and is kept, {_MOST_OF_WORK}.", "kind", "name"),
            gauge("work_oldest_seconds", "For how long the oldest there has waited.", "kind", "name"),
        )

    async def refresh(self) -> None:
        """Set the values of a recent verdict. Without one, they are absent."""
        if self._fence is not None:
            self._is_fenced.set(bool(self._fence.lacks))
        verdict = await self._current.get_older()
        if verdict is not None and verdict is self._told:
            return
        self._told = verdict
        self._forget()
        self._answers.set(verdict is not None)
        if verdict is not None:
            self._tell(verdict)

    def _forget(self) -> None:
        for gauge in (
            self._word, self._findings, *self._sinks, self._holds, self._stalled, self._subscriptions, self._troubled,
            self._failing, *self._of_subscriptions, self._times, self._dead, *self._work,
        ):  # fmt: skip
            gauge.clear()
        self._open.set(float("nan"))
        self._oldest.set(float("nan"))

    def _tell(self, verdict: Verdict) -> None:
        for word in get_args(Word):
            self._word.labels(word).set(word == verdict.word)
        for (kind, state), number in Counter((part.kind, part.state) for part in verdict.findings).items():
            self._findings.labels(kind, state).set(number)
        now = verdict.facts.at
        self._tell_sinks(verdict, now)
        self._tell_holds(verdict, now)
        self._tell_subscriptions(verdict, now)
        self._tell_deliveries(verdict, now)
        for part in verdict.of(*WORK_KINDS):
            self._tell_work(part, now)

    def _tell_sinks(self, verdict: Verdict, now: datetime) -> None:
        waiting, oldest, led, held, paused = self._sinks
        for row in verdict.facts.sinks:
            if not (row["configured"] or row["backlog"] or row["held"]):
                continue  # no process has this sink, so a missing leader is normal
            name = row["sink"]
            waiting.labels(name).set(row["backlog"])
            oldest.labels(name).set(_age_seconds(row["oldest_at"], now))
            led.labels(name).set(bool(row["led"]))
            held.labels(name).set(row["held"])
            paused.labels(name).set(row["paused_at"] is not None)

    def _tell_holds(self, verdict: Verdict, now: datetime) -> None:
        oldest: dict[str, float] = {}
        for row in verdict.facts.holds:
            self._holds.labels(row["sink"], row["scope"]).inc(row["holds"])
            oldest[row["sink"]] = max(oldest.get(row["sink"], 0.0), _age_seconds(row["since"], now))
        for name, seconds in oldest.items():
            self._stalled.labels(name).set(seconds)

    def _tell_subscriptions(self, verdict: Verdict, now: datetime) -> None:
        """Set the gauges of the worst subscriptions, by the rule of the status page and the API."""
        waiting, oldest = self._of_subscriptions
        for row in verdict.facts.subscription_counts:
            if row["subscriptions"]:
                self._subscriptions.labels(row["health"]).set(row["subscriptions"])
        for row in verdict.facts.subscriptions:
            if row["waiting"]:
                waiting.labels(row["public_id"]).set(row["waiting"])
                oldest.labels(row["public_id"]).set(_age_seconds(row["waiting_since"], now))
        self._tell_times(verdict)
        told = {part.name for part in verdict.of("subscription")}
        for row in [row for row in verdict.facts.subscriptions if row["public_id"] in told][:WORST_MAX]:
            self._tell_troubled(row, now)

    def _tell_times(self, verdict: Verdict) -> None:
        names = {row["id"]: row["public_id"] for row in verdict.facts.subscriptions}
        found: defaultdict[str, DurationHistogram] = defaultdict(DurationHistogram)
        for row in verdict.facts.attempt_times:
            if row["subscription_id"] in names:
                found[names[row["subscription_id"]]].add(row["latency_buckets"], row["latency_counts"])
        for name, times in found.items():
            for share in _QUANTILES:
                if (seconds := times.quantile(share)) is not None:
                    self._times.labels(name, str(share)).set(seconds)

    def _tell_troubled(self, row: Row, now: datetime) -> None:
        found, name = subscription_condition(row), row["public_id"]
        outcome, status = row["failure_outcome"] or "", str(row["failure_status"] or "")
        self._troubled.labels(name, found.state, found.blocked_by or "", outcome, status).set(1)
        if row["failing_since"] is not None:
            self._failing.labels(name).set(_age_seconds(row["failing_since"], now))

    def _tell_deliveries(self, verdict: Verdict, now: datetime) -> None:
        for part in verdict.of("deliveries"):
            self._open.set(part.waiting)
            self._oldest.set(_age_seconds(part.oldest_at, now))
        for row in verdict.facts.dead_letters:
            self._dead.labels(row["sink"]).inc(row["letters"])

    def _tell_work(self, part: Part, now: datetime) -> None:
        waiting, running, dead, oldest = (gauge.labels(part.kind, part.name) for gauge in self._work)
        waiting.set(part.waiting)
        running.set(part.running)
        dead.set(part.dead)
        oldest.set(_age_seconds(part.oldest_at, now))


def _age_seconds(since: datetime | None, now: datetime) -> float:
    """Return the age by the database's clock, which wrote both moments; 0 without a time."""
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
