"""Programs as handlers: one run for each task, job or message, its body on standard input (JB-56)."""

from __future__ import annotations

import json
from typing import Final

from app.bridges.script import Script, ScriptOutcome
from jobs.job_worker import JobFailed, JobOutcome
from jobs.jobs.job import ClaimedJob
from jobs.message_worker import MessageRefused
from jobs.queues.message import Received
from jobs.tasks.task import Task, TaskFailed

__all__ = ["DEAD_STATUS", "ProgramHandler"]

DEAD_STATUS: Final = 100
"""The exit status of a program for a final failure."""


class ProgramHandler:
    """Runs a program for tasks, jobs and messages. ``script`` may run several times at once."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def run_task(self, task: Task) -> None:
        """Run the program for a task. Raises TaskFailed unless it exits with 0."""
        variables = {
            "HOOKWIRE_TASK_ID": task.id,
            "HOOKWIRE_TASK_KIND": task.kind,
            "HOOKWIRE_ATTEMPT": str(task.attempt),
        }
        outcome = await self._script.run(task.description.encode(), variables)
        if not outcome.done:
            raise TaskFailed(outcome.reason, dead=_is_final(outcome))

    async def run_job(self, job: ClaimedJob) -> JobOutcome:
        """Run the program for a job. Raises JobFailed unless it exits with 0."""
        variables = {
            "HOOKWIRE_JOB_ID": str(job.receipt.job_id),
            "HOOKWIRE_JOB_KIND": job.kind,
            "HOOKWIRE_ATTEMPT": str(job.attempt),
        }
        outcome = await self._script.run(json.dumps(job.args).encode(), variables)
        if not outcome.done:
            raise JobFailed(outcome.reason, dead=_is_final(outcome))
        return JobOutcome()

    async def run_message(self, received: Received) -> None:
        """Run the program for a message. Raises MessageRefused unless it exits with 0."""
        message = received.message
        variables = {"HOOKWIRE_MESSAGE_ID": f"msg_{message.id}", "HOOKWIRE_ATTEMPT": str(received.attempts)}
        if message.content_type is not None:
            variables["HOOKWIRE_CONTENT_TYPE"] = message.content_type
        outcome = await self._script.run(message.payload, variables)
        if not outcome.done:
            raise MessageRefused(outcome.reason, dead=_is_final(outcome))


def _is_final(outcome: ScriptOutcome) -> bool:
    return outcome.exit_status == DEAD_STATUS
