"""``hookwire work``: run a program for each task, for each job, or for each message of a queue."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.entry import Config, run, settings_from, tell
from app.cli.failure import CommandFailed

if TYPE_CHECKING:
    from app.bridges.script import Script
    from app.settings.settings import Settings
    from db.pool import Database
    from hookwire.jobs.leasing.leasing import Leasing
    from hookwire.jobs.task_worker import TaskWorker, WakeUps

__all__ = ["work"]

_JOB_POLL_SECONDS: Final = 0.2
_MESSAGE_POLL_SECONDS: Final = 0.5

Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="Tasks or jobs of this kind; may be repeated. Default: all.")
]
Queue = Annotated[str | None, typer.Option("--queue", help="Messages of this queue instead of tasks.")]
Jobs = Annotated[bool, typer.Option("--jobs", help="Jobs instead of tasks, of the kinds in --kind.")]
QueueDatabase = Annotated[
    str | None,
    typer.Option("--database", help="With --queue: a queue in MariaDB or MySQL, mysql://user:password@host/db."),
]
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
    database: QueueDatabase = None, config: Config = None,
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

      hookwire work --queue mail --database mysql://shop:secret@127.0.0.1/shop -- ./send-mail
    """
    if not context.args:
        raise CommandFailed("name the program after --, such as: hookwire work --kind mail.send -- ./send-mail", 2)
    from app.cli.working.program_handler import check_program

    check_program(context.args)
    if database is not None:
        if queue is None or jobs or kind:
            raise CommandFailed("--database is for messages of a queue there: name it by --queue", 2)
        run(_work_mysql(database, queue, context.args, concurrency, count, timeout, lease, grace))
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


async def _work_tasks(
    settings: Settings, kinds: Sequence[str] | None, command: Sequence[str], slots: int, count: int | None,
    timeout: float, grace: float, presence: float,
) -> int:  # fmt: skip
    from app.bridges.work_log import report_of
    from app.cli.working.program_handler import ProgramHandler
    from db.sdk_pool import SdkPool
    from hookwire.jobs.job_worker import worker_name
    from hookwire.jobs.sql_tasks import SqlTasks
    from hookwire.jobs.task_worker import TaskOptions, TaskWorker

    async with _opened(settings, command, timeout) as (database, script):
        options = TaskOptions(
            worker_name(), kinds or None, slots, presence_seconds=presence, grace_seconds=grace, count=count
        )
        wake_ups = await _wake_ups(settings, database)
        tasks = SqlTasks(SdkPool(database))
        worker = TaskWorker(tasks, ProgramHandler(script).run_task, options, report_of("task"), wake_ups)
        await _run(worker, script, f"works on tasks of {', '.join(kinds) if kinds else 'every kind'} as {options.name}")
        tell(f"finished {worker.tally.done}, failed {worker.tally.failed}, returned {worker.tally.released}")
    return 0


async def _wake_ups(settings: Settings, database: Database) -> list[WakeUps]:
    from app.assembly.sinks import amqp_options
    from app.bridges.task_notifications import from_notify
    from db.direct import connect_direct
    from relay.amqp.notifications import AmqpNotifications

    transports: list[WakeUps] = [partial(from_notify, lambda: connect_direct(database.options))]
    if settings.amqp_url is not None:
        row = await database.fetchrow("event.installation")
        assert row is not None, "the first migration writes it"
        transports.append(AmqpNotifications(amqp_options(settings, row["incarnation"])).listen)
    return transports


async def _work_jobs(
    settings: Settings, kinds: Sequence[str] | None, command: Sequence[str], slots: int, count: int | None,
    timeout: float, lease: float, grace: float,
) -> int:  # fmt: skip
    from app.bridges.work_log import report_of
    from app.cli.working.program_handler import ProgramHandler
    from db.sdk_pool import SdkPool
    from hookwire.jobs.job_worker import worker_name
    from hookwire.jobs.leased_jobs import LeasedJobs
    from hookwire.jobs.leasing.leasing import LeaseOptions, Leasing
    from hookwire.jobs.sql_jobs import SqlJobs

    async with _opened(settings, command, timeout) as (database, script):
        source = LeasedJobs(SqlJobs(SdkPool(database)), lambda: kinds or None, worker_name(), lease)
        options = LeaseOptions(slots, lease, _JOB_POLL_SECONDS, grace, held_max=slots, count=count)
        worker = Leasing(source, ProgramHandler(script).run_job, options, report_of("job"))
        await _run(worker, script, f"works on jobs of {', '.join(kinds) if kinds else 'every kind'} as {source.worker}")
        tell(f"completed {worker.tally.done}, failed {worker.tally.failed}, returned {worker.tally.released}")
    return 0


async def _work_queue(
    settings: Settings, queue: str, command: Sequence[str], slots: int, count: int | None, timeout: float,
    lease: float, grace: float,
) -> int:  # fmt: skip
    from db.sdk_pool import SdkPool

    async with _opened(settings, command, timeout) as (database, script):
        if await database.fetchrow("queue.get", queue) is None:
            tell(f"nobody has used or made the queue {queue} yet; check its name")
        return await _work_messages(SdkPool(database), script, queue, slots, count, lease, grace)


async def _work_mysql(
    url: str, queue: str, command: Sequence[str], slots: int, count: int | None, timeout: float, lease: float,
    grace: float,
) -> int:  # fmt: skip
    from app.bridges.script import Script
    from app.cli.working.mysql_queues import check_queue, opened_queues
    from db.mariadb.sdk_pool import MariaSdkPool

    async with opened_queues(url) as database:
        await check_queue(database, queue)
        script = Script(command, timeout_seconds=timeout)
        return await _work_messages(MariaSdkPool(database), script, queue, slots, count, lease, grace)


async def _work_messages(
    pool: Any, script: Script, queue: str, slots: int, count: int | None, lease: float, grace: float
) -> int:
    from app.bridges.work_log import report_of
    from app.cli.working.program_handler import ProgramHandler
    from hookwire.jobs.job_worker import worker_name
    from hookwire.jobs.leasing.leasing import LeaseOptions, Leasing
    from hookwire.jobs.messages.leased_messages import LeasedMessages

    source = LeasedMessages(pool, queue, lease, worker_name())
    options = LeaseOptions(slots, lease, _MESSAGE_POLL_SECONDS, grace, held_max=slots, count=count)
    worker = Leasing(source, ProgramHandler(script).run_message, options, report_of("message"))
    await _run(worker, script, f"works on messages of {queue}")
    tell(f"accepted {worker.tally.done}, rejected {worker.tally.failed}")
    return 0


@asynccontextmanager
async def _opened(settings: Settings, command: Sequence[str], timeout: float) -> AsyncIterator[tuple[Database, Script]]:
    from app.bridges.script import Script
    from app.cli.database import opened_database

    async with opened_database(settings, application_name="hookwire work", connections_max=8) as database:
        yield database, Script(command, timeout_seconds=timeout)


async def _run(worker: Leasing[Any] | TaskWorker, script: Script, text: str) -> None:
    """Say what the worker works on, and run it until it is stopped."""
    _stop_by_signal(worker.stop, script)
    tell(text)
    await worker.run()


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
