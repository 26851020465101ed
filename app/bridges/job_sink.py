"""Jobs from events as a sink: joins two siblings that do not know each other, the relay and the jobs."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from app.bridges.inner_sink import InnerSink
from jobs.jobs.event_jobs import EventJobs, JobTermOver
from relay.record import Record
from relay.sink import Features, Term

__all__ = ["JobSink"]


class JobSink(InnerSink):
    """The sink whose purge enqueues a job for each record. ``has_sent``: a record has come, so some topic has a rule of
    jobs.
    """

    name = "jobs"
    features = Features(window="record", batch_records_max=500, payload=False, purges=True)
    term_over = JobTermOver

    def __init__(self, event_jobs: EventJobs) -> None:
        super().__init__()
        self._event_jobs = event_jobs
        self.has_sent = False

    @override
    async def purge(self, term: Term, records: Sequence[Record]) -> Sequence[Record]:
        shards, ids = [record.shard for record in records], [record.id for record in records]
        done = await self._event_jobs.enqueue(term.group, term.number, shards, ids)
        self.has_sent = True
        return [record for record in records if record.id in done]
