"""Callbacks of kinds of jobs: a callback gets each job as a POST, and its answer settles the job.

A subscription ``{"kind", "callback"}`` creates a callback. The body of the POST is an item of ``POST /jobs/claim`` and
holds the receipt. A callback that has an API key may use the receipt to report progress. It may also settle the job
together with events and follow-up jobs in one commit. The answer to the POST then finds the job settled and changes
nothing. :mod:`jobs.jobs.callback_answer` maps answers to next steps.

A job is leased for as long as the POST may take, with a fence like that of any other worker's claim.
:mod:`egress.callback_worker` leases and POSTs, for services too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from db.errors import DatabaseError, Refused
from db.pool import Database
from egress.callback import CallbackBook, CallbackMessage, CallbackOptions
from egress.callback_worker import LEASE_MARGIN_SECONDS, LEASED_EACH, CallbackWorker
from egress.client import Outbound, Response
from event.timestamp import format_timestamp
from jobs.jobs.callback_answer import CallbackVerdict, judge_answer
from jobs.jobs.job import ClaimedJob, JobReceipt
from jobs.jobs.job_queue import JobQueue

__all__ = ["PushedJobs"]

_STALE: Final = "HW001"
_POST_SECONDS_MIN: Final = 0.1


class PushedJobs(CallbackWorker):
    """Claim jobs of kinds that have callbacks, POST them, settle them. ``on_posted`` gets the outcome of each."""

    name = "job callbacks"
    expected: ClassVar = (DatabaseError,)

    def __init__(
        self, database: Database, queue: JobQueue, outbound: Outbound, book: CallbackBook, options: CallbackOptions,
        on_posted: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        super().__init__(outbound, book, options)
        self._database = database
        self._queue = queue
        self._on_posted = on_posted
        self._has_claimed = False

    def enqueued(self) -> None:
        """Poll now, because a job was enqueued. Before the first pushed job, leave polling to the due poller."""
        if self._has_claimed:
            self.poll_now()

    async def lease(self, full: Sequence[int], subscriptions: int) -> Sequence[Mapping[str, Any]]:
        """Claim jobs; the claims carry the subscription's name as the worker. Raise ``db.errors.DatabaseError``."""
        rows = await self._database.fetch(
            "job.claim_for_callbacks", full, LEASED_EACH, self._options.timeout_seconds, LEASE_MARGIN_SECONDS,
            subscriptions,
        )  # fmt: skip
        self._has_claimed = self._has_claimed or bool(rows)
        return rows

    def message(self, work: Mapping[str, Any]) -> CallbackMessage:
        """Return the job as ``POST /jobs/claim`` shows it."""
        job = ClaimedJob.of(work)
        headers = [
            ("content-type", "application/json"), ("hookwire-kind", job.kind),
            ("hookwire-job-id", str(job.receipt.job_id)), ("hookwire-attempt", str(job.attempt)),
        ]  # fmt: skip
        body = json.dumps(job.as_item(), default=format_timestamp, ensure_ascii=False, separators=(",", ":")).encode()
        seconds = max(work["run_seconds_left"], _POST_SECONDS_MIN)
        return CallbackMessage(f"job_{job.receipt.job_id}", headers, body, seconds)

    async def record(self, work: Mapping[str, Any], answer: Response | str) -> None:
        """Settle the job by its callback's answer; end the subscription after a 410."""
        receipt = JobReceipt(work["id"], work["claim"])
        verdict = judge_answer(answer, datetime.now(UTC), self._options.retry_after_seconds_max)
        if verdict.verb == "release":
            await self._database.fetch(
                "subscription.end", work["subscription_id"], "gone", verdict.why, work["version"]
            )
        try:
            self._on_posted(await self._settle(receipt, verdict))
        except Refused as error:
            if error.sqlstate == _STALE:
                self._on_posted("stale")
                return
            why = f"the callback's result was refused: {error.message}"
            self._on_posted(await self._settle(receipt, CallbackVerdict("fail", why=why)))

    async def _settle(self, receipt: JobReceipt, verdict: CallbackVerdict) -> str:
        """Return the outcome: the verb in the past tense, or ``stale``."""
        match verdict.verb:
            case "complete":
                done = await self._queue.complete(
                    [receipt], [verdict.result], [{"note": verdict.why} if verdict.why else None]
                )
                return "completed" if done else "stale"
            case "snooze":
                await self._queue.snooze(receipt, verdict.seconds)
                return "snoozed"
            case "release":
                await self._queue.release([receipt])
                return "released"
            case _:
                await self._queue.fail(receipt, verdict.why, dead=verdict.verb == "discard")
                return "failed"
