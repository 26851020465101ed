"""``hookwire serve``: start everything, print the addresses, run until stopped.

A thread imports the rest of the product. Meanwhile the database is asked, and opened where no migration is pending. So
the start waits for the slower of the two.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from app.assembly.roles import ROLES
from app.checks import Check, early_checks, refuse_kafka_loops, startup_checks
from app.settings.settings import Settings, SettingsRefused
from db.arrival import wait_for_database
from db.embedded.identity import ClusterLost
from db.migrate import pending
from db.pool import Database, PoolOptions
from runtime.process import Process, end_within

if TYPE_CHECKING:
    from app.assembly.storage import Storage
    from app.wiring import Assembly

__all__ = ["serve"]

_log = structlog.get_logger(__name__)
_SWITCH_SECONDS: Final = 0.001
"""The time after which the importing thread lets the loop go on. By default each answer of the database waits 5 ms."""


class Opening(Protocol):
    """What opens the hub, over a storage that is open already, or over its own."""

    def __call__(self, *, given: Storage | None) -> AbstractAsyncContextManager[Assembly]:
        """Return the hub, which is not open yet."""
        ...


async def serve(
    settings: Settings, roles: Sequence[str] | None = None, on_loaded: Callable[[], None] = lambda: None
) -> int:
    """Run the roles (all by default) until a signal; return the exit code. ``on_loaded`` is called when the
    whole product has been imported. Raise ``ChecksRefused`` too.
    """
    unknown = set(roles or ()) - set(ROLES)
    if unknown:
        raise SettingsRefused(f"--role is one of {', '.join(ROLES)}, not {', '.join(sorted(unknown))}")
    if roles and set(roles) == {"source"} and not settings.reads_sources:
        raise SettingsRefused(
            "--role source has nothing to read: HOOKWIRE_AMQP_SOURCES names queues, HOOKWIRE_KAFKA_SOURCES topics"
        )
    wanted = roles or ROLES
    async with AsyncExitStack() as stack:
        opening, (sessions, storage) = await _imported(settings, wanted, on_loaded, stack)
        hub = await stack.enter_async_context(opening(given=storage))
        await _make_first_key(settings, hub)
        if storage is None:  # it has been opened only now
            await _check(settings, wanted, hub.storage.database, sessions)
        if "source" in wanted:
            await refuse_kafka_loops(settings, hub.storage.database.options)
        if "api" not in wanted:  # else the routes are still to be imported, and the front tells of them
            on_loaded()
        _greet(hub, settings, wanted)
        from app.assembly.later import publishers_first

        seconds = settings.stop_delay_seconds + settings.drain_seconds
        await _run(Process(publishers_first(hub.phases), seconds, end_within))
    return 0


async def _imported(
    settings: Settings, roles: Sequence[str], on_loaded: Callable[[], None], stack: AsyncExitStack
) -> tuple[Opening, tuple[Check | None, Storage | None]]:
    """Import the product while the database is asked. Of two failures the first is raised, and at once."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        async with asyncio.TaskGroup() as group:
            importing = group.create_task(asyncio.to_thread(_hub, settings, roles, on_loaded))
            asking = group.create_task(_asked(settings, roles, stack))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        sys.setswitchinterval(interval)
    return importing.result(), asking.result()


def _hub(settings: Settings, roles: Sequence[str], on_loaded: Callable[[], None]) -> Opening:
    """Import the whole product, which takes longer than all checks, and return what opens the hub."""
    from app.wiring import open_hub

    return partial(open_hub, settings, roles, on_loaded=on_loaded)


async def _asked(
    settings: Settings, roles: Sequence[str], stack: AsyncExitStack
) -> tuple[Check | None, Storage | None]:
    """Wait until a configured database answers, and return the early check of it, and the open and checked storage.

    None: it is opened after the hub has bound its port, because that may start a server, or migrate.
    """
    await _database(settings)
    sessions = await early_checks(settings)
    if settings.database_url is None or not (await pending(settings.database_url.get_secret_value())).is_empty:
        return sessions, None
    from app.assembly.storage import open_storage

    storage = await stack.enter_async_context(open_storage(settings, is_migrated=True))
    await _check(settings, roles, storage.database, sessions)
    return sessions, storage


async def _check(settings: Settings, roles: Sequence[str], pool: Database, sessions: Check | None) -> None:
    """Make the checks of a start over a session of the pool. Raise ``ChecksRefused``."""
    await startup_checks(
        settings, pool.options, settings.listen_address[1], sessions, serves_api="api" in roles,
        reads_amqp="source" in roles, pool=pool,
    )  # fmt: skip


async def _make_first_key(settings: Settings, hub: Assembly) -> None:
    from app.assembly.first_key import make_first_key

    await make_first_key(settings, hub.storage.database)


async def _database(settings: Settings) -> None:
    """Wait until a configured database answers."""

    def tell(reason: str, pause: float) -> None:
        _log.warning("waiting_for_database", reason=reason, next_try_seconds=pause)

    if settings.database_url is not None:
        options = PoolOptions(settings.database_url.get_secret_value())
        await wait_for_database(options, settings.database_wait_seconds, tell)


async def _run(process: Process) -> None:
    """Run until stopped. Raise ``ClusterLost`` for lost data, so that a sentence and no traceback is printed."""
    try:
        await process.run()
    except ExceptionGroup as failures:
        for failure in failures.exceptions:
            if isinstance(failure, ClusterLost):
                raise failure from None
        raise


def _greet(hub: Assembly, settings: Settings, roles: Sequence[str]) -> None:
    """Print the addresses once, on standard error, for a person."""
    running = [role for role in roles if role != "source" or settings.reads_sources]
    lines = [f"hookwire runs: {', '.join(running)}"]
    if "api" in roles:
        lines += [f"  API       {hub.public_url}", f"  status    {hub.public_url}/"]
        if settings.serves_docs:
            lines.append(f"  docs      {hub.public_url}/docs")
    if hub.metrics_url:
        lines.append(f"  metrics   {hub.metrics_url}/metrics")
    absent = [name for name in ("kafka", "amqp") if name not in hub.sinks]
    lines.append(f"  sinks     {', '.join(hub.sinks)}" + (f"  (not configured: {', '.join(absent)})" if absent else ""))
    if "source" in running:
        named = (*settings.amqp_sources, *settings.kafka_sources)
        lines.append(f"  sources   {', '.join(text.partition('?')[0] for text in named)}")
    if hub.storage.embedded is not None:
        lines.append(f"  database  {hub.storage.embedded.psql_command}")
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
