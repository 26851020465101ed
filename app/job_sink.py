"""Jobs from events as a sink: joins two siblings that do not know each other, the relay and the jobs."""

from __future__ import annotations

from db.errors import DatabaseError
from jobs.event_jobs import EventJobs, JobTermOver
from relay.sink import Batch, Features, Fenced, Receipt, SinkUnavailable, Term

__all__ = ["JobSink"]


class JobSink:
    """Its fence is the term itself, named in the statement that enqueues; it has no connection of its own.

    ``has_sent``: whether an event has come, so that there is a topic with a rule.
    """

    name = "jobs"
    features = Features(window="record", batch_records_max=500, payload=False, purges=True)

    def __init__(self, event_jobs: EventJobs) -> None:
        self._event_jobs = event_jobs
        self.has_sent = False
        self._is_open = False

    async def open(self, term: Term) -> None:
        """Every predecessor was fenced out when the term was raised."""
        self._is_open = True

    async def send(self, batch: Batch) -> Receipt:
        """One transaction: purge and jobs."""
        if not self._is_open:
            raise SinkUnavailable("the sink of jobs is not open")
        records, term = batch.records, batch.term
        try:
            done = await self._event_jobs.enqueue(
                term.group, term.number, [record.shard for record in records], [record.id for record in records]
            )
        except JobTermOver:
            raise Fenced(f"term {term.number} of the sink of jobs is over") from None
        except DatabaseError as error:
            raise SinkUnavailable(str(error)) from error
        self.has_sent = True
        return Receipt(acknowledged=[record for record in records if record.id in done])

    async def close(self) -> None:
        """Take no more batches."""
        self._is_open = False
