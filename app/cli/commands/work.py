"""``hookwire work``: run a program for each task, for each job, or for each message of a queue."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.entry import Config, run, settings_from, tell
from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from app.bridges.script import Script
    from app.settings.settings import Settings
    from db.pool import Database
    from jobs.tasks.notification import Notifications

__all__ = ["work"]

Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="Tasks or jobs of this kind; may be repeated. Default: all.")
]
Queue = Annotated[str | None, typer.Option("--queue", help="Messages of this queue instead of tasks.")]
Jobs = Annotated[bool, typer.Option("--jobs", help="Jobs instead of tasks, of the kinds in --kind.")]
Slots = Annotated[
    int, typer.Option("--concurrency", min=1, max=500, help="The largest number of programs that run at once.")
]
Count = Annotated[int | None, typer.Option("--count", min=1, help="End after this number of tasks, jobs or messages.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that one run may take.")]
Lease = Annotated[
    float,
    typer.Option(
        "--lease",
        min=1,
        max=43_200,
        help="With --queue or --jobs: seconds after which the work of a dead worker is free; for jobs at most 3600.",
    ),
]
Grace = Annotated[
    float, typer.Option("--grace", min=0, help="After SIGTERM: seconds in which running programs may finish.")
]
Presence = Annotated[
    float,
    typer.Option("--presence", min=0.5, help="Seconds without a heartbeat after which the worker counts as dead."),
]


def work(
    context: typer.Context, kind: Kinds = None, jobs: Jobs = False, queue: Queue = None, concurrency: Slots = 1,
    count: Count = None, timeout: Timeout = 3600.0, lease: Lease = 60.0, grace: Grace = 10.0, presence: Presence = 15.0,
    config: Config = None,
) -> None:  # fmt: skip
    """Run a program for each task, job or message. Exit code 0 means success, 100 a final failure, any other a failure.

    Standard input holds the arguments of the task or job as JSON, or the payload of the message. Variables describe it:
    HOOKWIRE_TASK_ID and HOOKWIRE_TASK_KIND, or HOOKWIRE_JOB_ID and HOOKWIRE_JOB_KIND, or HOOKWIRE_MESSAGE_ID, and
    always HOOKWIRE_ATTEMPT.

    The command uses the database itself (HOOKWIRE_DATABASE_URL). It gets notifications over AMQP if HOOKWIRE_AMQP_URL
    is set. After SIGTERM it begins nothing more, lets programs finish and returns other work. A second SIGTERM ends the
    programs at once.

    Examples:

      hookwire work --kind mail.send -- ./send-mail

      hookwire work --jobs --kind invoice.check -- ./check-invoice

      hookwire work --queue thumbnails --concurrency 4 -- ./thumbnail
    """
    if not context.args:
        raise CommandFailed("name the program after --, such as: hookwire work --kind mail.send -- ./send-mail", 2)
    settings = settings_from(config)
    if queue is not None:
        if jobs:
            raise CommandFailed("--queue is for messages and --jobs for jobs; give one of them", 2)
        if kind:
            raise CommandFailed("--queue is for messages, and --kind for tasks or jobs; give one of them", 2)
        run(_work_queue(settings, queue, context.args, concurrency, count, timeout, lease, grace))
    if jobs:
        run(_work_jobs(settings, kind, context.args, concurrency, count, timeout, min(lease, 3600.0), grace))
    run(_work_tasks(settings, kind, context.args, concurrency, count, timeout, grace, presence))


def _worker_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


async def _work_tasks(
    settings: Settings, kinds: Sequence[str] | None, command: Sequence[str], slots: int, count: int | None,
    timeout: float, grace: float, presence: float,
) -> int:  # fmt: skip
    from app.bridges.script import Script
    from app.cli.database import opened_database
    from app.cli.program_handler import ProgramHandler
    from jobs.task_worker import TaskWorker, TaskWorkerOptions
    from jobs.tasks.tasks import Tasks

    async with AsyncExitStack() as stack:
        options = {"application_name": "hookwire work", "connections_max": 8}
        database = await stack.enter_async_context(opened_database(settings, **options))
        script = Script(command, timeout_seconds=timeout)
        worker_options = TaskWorkerOptions(
            _worker_name(), list(kinds) if kinds else None, slots, beat_seconds=presence / 3,
            presence_seconds=presence, grace_seconds=grace, count=count,
        )  # fmt: skip
        transports = await _transports(settings, database)
        worker = TaskWorker(Tasks(database), ProgramHandler(script).run_task, worker_options, transports)
        _stop_by_signal(worker.stop, script)
        tell(f"works on tasks of {', '.join(kinds) if kinds else 'every kind'} as {worker_options.name}")
        await worker.run()
        tell(f"finished {worker.tally.finished}, failed {worker.tally.failed}, returned {worker.tally.released}")
    return 0


async def _transports(settings: Settings, database: Database) -> list[Notifications]:
    from app.assembly.sinks import amqp_options
    from app.bridges.task_notifications import FromAmqp, FromNotify
    from db.direct import connect_direct
    from relay.amqp.notifications import AmqpNotifications

    transports: list[Notifications] = [FromNotify(lambda: connect_direct(database.options))]
    if settings.amqp_url is not None:
        row = await database.fetchrow("event.installation")
        assert row is not None, "the first migration writes it"
        transports.append(FromAmqp(AmqpNotifications(amqp_options(settings, row["incarnation"]))))
    return transports


async def _work_jobs(
    settings: Settings, kinds: Sequence[str] | None, command: Sequence[str], slots: int, count: int | None,
    timeout: float, lease: float, grace: float,
) -> int:  # fmt: skip
    from app.bridges.script import Script
    from app.cli.database import opened_database
    from app.cli.program_handler import ProgramHandler
    from jobs.job_worker import JobWorker, JobWorkerOptions
    from jobs.jobs.job_queue import JobQueue

    async with opened_database(settings, application_name="hookwire work", connections_max=8) as database:
        script = Script(command, timeout_seconds=timeout)
        options = JobWorkerOptions(
            _worker_name(), list(kinds) if kinds else None, slots=slots, lease_seconds=lease, grace_seconds=grace,
            count=count,
        )  # fmt: skip
        worker = JobWorker(JobQueue(database), ProgramHandler(script).run_job, options)
        _stop_by_signal(worker.stop, script)
        tell(f"works on jobs of {', '.join(kinds) if kinds else 'every kind'} as {options.name}")
        await worker.run()
        tell(f"completed {worker.completed}, failed {worker.failed}, returned {worker.released}")
    return 0


async def _work_queue(
    settings: Settings, queue: str, command: Sequence[str], slots: int, count: int | None, timeout: float,
    lease: float, grace: float,
) -> int:  # fmt: skip
    from app.bridges.script import Script
    from app.cli.database import opened_database
    from app.cli.program_handler import ProgramHandler
    from jobs.message_worker import MessageWorker, MessageWorkerOptions
    from jobs.queues.queues import Queues
    from jobs.queues.waiting import Waiting

    async with opened_database(settings, application_name="hookwire work", connections_max=8) as database:
        waiting = Waiting(database)
        script = Script(command, timeout_seconds=timeout)
        options = MessageWorkerOptions(queue, _worker_name(), slots, lease, grace, count)
        worker = MessageWorker(Queues(database), waiting, ProgramHandler(script).run_message, options)
        _stop_by_signal(worker.stop, script)
        tell(f"works on messages of {queue}")
        await worker.run()
        tell(f"accepted {worker.accepted}, rejected {worker.rejected}")
    return 0


def _stop_by_signal(stop: Callable[[], None], script: Script) -> None:
    """Stop softly at the first signal, and end the programs at the second."""
    stopped = asyncio.Event()

    def asked() -> None:
        if stopped.is_set():
            script.kill()
        stopped.set()
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked)
