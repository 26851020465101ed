"""``hookwire listen``: print events as they arrive, and forward them to a local port. It needs no public address."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated, Any

import typer

from app.cli.entry import Config, Json, Url, parsed, run
from app.cli.failure import CommandFailed

__all__ = ["listen"]

Topic = Annotated[str, typer.Argument(help="A topic, or a pattern: * is one word, # any number of words.")]
Forward = Annotated[
    str | None, typer.Option("--forward", help="Also POST each event to this URL, such as http://localhost:3000/hook.")
]
Filter = Annotated[
    str | None, typer.Option("--filter", help="Filter on the content of events, as JSON; see test-filter.")
]
Subscription = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        help="Use this pull subscription and keep it. Default: a new one, which ends with the command.",
    ),
]
Count = Annotated[int | None, typer.Option("--count", min=1, help="End after this number of events. Default: no end.")]

_TERMINATED = 128 + signal.SIGTERM


def listen(
    topic: Topic = "#", forward: Forward = None, filter_: Filter = None, subscription: Subscription = None,
    count: Count = None, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Print events as they arrive, until Ctrl-C. An event that --forward does not answer with 2xx is delivered again.

    The command uses a pull subscription, which ends with it. It continues after an outage of the hub.

    Examples:

      hookwire listen

      hookwire listen 'orders.#' --forward http://localhost:3000/hook

      hookwire listen orders.created --count 1 --json
    """
    from app.cli.hub_client import hub_of

    if forward is not None and not forward.startswith(("http://", "https://")):
        raise CommandFailed(f"--forward: {forward} is no http URL", 2)
    asked: dict[str, Any] = {"topic": topic}
    if filter_ is not None:
        asked["filter"] = parsed("--filter", filter_)
    hub = hub_of(url, config)
    run(_listen(hub, asked, subscription, forward, count, as_json))


async def _listen(
    hub: str, asked: dict[str, Any], given: str | None, forward: str | None, count: int | None, as_json: bool
) -> int:
    from app.cli.listening import Listening
    from app.cli.pulling import Pulling

    terminated = asyncio.Event()
    task = asyncio.current_task()
    assert task is not None, "a command's coroutine is a task"

    def terminate() -> None:
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
    try:
        async with Pulling(hub, asked, given) as pulling, Listening(pulling, forward, as_json=as_json) as listening:
            await listening.run(count)
    except asyncio.CancelledError:
        if not terminated.is_set():
            raise
        return _TERMINATED  # the subscription has ended with the context (FT-07)
    return 0
