"""Programs as handlers: one run for each task, job or message, its body on standard input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Final

from app.bridges.script import Script, ScriptOutcome
from app.cli.failure import CommandFailed
from hookwire.jobs import Failed, Job, Message, Refused
from hookwire.jobs.sql_tasks import Task

__all__ = ["DEAD_STATUS", "ProgramHandler", "check_program"]

DEAD_STATUS: Final = 100
"""The exit status of a program for a final failure."""


def check_program(command: Sequence[str]) -> None:
    """Raise ``CommandFailed`` unless the command's program is there and may be run."""
    if shutil.which(command[0]) is None:
        raise CommandFailed(
            f"{command[0]} is no program that can be run: give its path, make it executable (chmod +x), or install it",
            2,
        )


class ProgramHandler:
    """Runs a program for tasks, jobs and messages. ``script`` may run several times at once."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def run_task(self, task: Task) -> None:
        """Run the program for a task. Raise Failed unless it exits with 0."""
        variables = {
            "HOOKWIRE_TASK_ID": task.id,
            "HOOKWIRE_TASK_KIND": task.kind,
            "HOOKWIRE_ATTEMPT": str(task.attempt),
        }
        outcome = await self._script.run(task.description.encode(), variables)
        if not outcome.done:
            raise Failed(outcome.reason, dead=_is_final(outcome))

    async def run_job(self, job: Job) -> None:
        """Run the program for a job. Raise Failed unless it exits with 0."""
        variables = {
            "HOOKWIRE_JOB_ID": job.id,
            "HOOKWIRE_JOB_KIND": job.kind,
            "HOOKWIRE_ATTEMPT": str(job.attempt),
        }
        outcome = await self._script.run(json.dumps(job.args).encode(), variables)
        if not outcome.done:
            raise Failed(outcome.reason, dead=_is_final(outcome))

    async def run_message(self, message: Message) -> None:
        """Run the program for a message. Raise Refused unless it exits with 0."""
        variables = {"HOOKWIRE_MESSAGE_ID": f"msg_{message.id}", "HOOKWIRE_ATTEMPT": str(message.attempts)}
        if message.content_type is not None:
            variables["HOOKWIRE_CONTENT_TYPE"] = message.content_type
        outcome = await self._script.run(message.payload, variables)
        if not outcome.done:
            raise Refused(outcome.reason, dead=_is_final(outcome))


def _is_final(outcome: ScriptOutcome) -> bool:
    return outcome.exit_status == DEAD_STATUS
