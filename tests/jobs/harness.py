"""Workers of a test's own, and what they ran."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from app.bridges.work_log import report_of
from db.pool import Database
from db.sdk_pool import SdkPool
from hookwire.jobs import Failed
from hookwire.jobs.sql_tasks import SqlTasks, Task
from hookwire.jobs.task_worker import TaskOptions, TaskWorker
from tests.waiting import until

WAIT_SECONDS = 60.0
INSERT = "INSERT INTO hookwire.tasks (id, kind, description) VALUES ($1, 'mytask', 'mytask ' || $1)"


class Ran:
    """A handler that keeps what it ran."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.changed = asyncio.Event()
        self.hold: asyncio.Event | None = None

    async def __call__(self, task: Task) -> None:
        self.tasks.append(task)
        self.changed.set()
        if task.description == "fails":
            raise Failed("told to")
        if self.hold is not None:
            await self.hold.wait()

    async def until(self, count: int) -> list[str]:
        """The ids that ran, once there are so many."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.tasks) < count:
                self.changed.clear()
                await self.changed.wait()
        return [task.id for task in self.tasks]


class Transport:
    """Notifications that the test sends itself."""

    def __init__(self) -> None:
        self.notified: Callable[[str, Any], None] = lambda *_: None
        self.ready = asyncio.Event()
        self.acknowledged: list[str] = []

    async def __call__(self, notified: Callable[[str, Any], None]) -> None:
        self.notified = notified
        self.ready.set()
        await asyncio.Event().wait()

    def send(self, task_id: str) -> None:
        async def acknowledge() -> None:
            self.acknowledged.append(task_id)

        self.notified(task_id, acknowledge)


@asynccontextmanager
async def working(database: Database, handler: Any, *transports: Any, **options: Any) -> AsyncIterator[TaskWorker]:
    """A worker that polls only where the test says so, by default never."""
    given = {"name": "w", "slots": 4, "poll_seconds": 3600.0, "presence_seconds": 60.0, **options}
    worker = TaskWorker(SqlTasks(SdkPool(database)), handler, TaskOptions(**given), report_of("task"), transports)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        for transport in transports:
            if isinstance(transport, Transport):
                await transport.ready.wait()
        yield worker
        worker.stop()
        await running


async def drained(sql: asyncpg.Connection) -> None:
    await until(lambda: sql.fetchval("SELECT count(*) = 0 FROM hookwire.task_rows"))
