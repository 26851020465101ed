"""``hookwire queues``: list and manage queues, for people."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app.cli.data import line, read_data, segment
from app.cli.entry import Config, Json, Url, Why, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.lines.stats import Since, Until, print_stats, work_lines
from app.cli.listing import print_done, print_listed, print_one
from app.cli.moment import shown_moment
from runtime.counted import counted, were

__all__ = ["queues"]

queues = typer.Typer(help="Queues: list, show, submit, peek, pause, resume, dead letters.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The queue.")]
Payload = Annotated[str, typer.Argument(help="The message. - reads standard input, as by default; @FILE a file.")]
ContentType = Annotated[str | None, typer.Option("--content-type", help="Content type of the message.")]
Delay = Annotated[float, typer.Option("--delay", min=0, help="Seconds before the message is handed out.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=500, help="The largest number of messages to print.")]
Ids = Annotated[
    list[str] | None, typer.Option("--id", help="A message such as msg_7; may be repeated. Default: the oldest 500.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database", help="A MariaDB or MySQL with queues instead of the hub: mysql://user:password@host/db."
    ),
]
_HEADS = ("Queue", "Available", "Claimed", "Delayed", "Dead", "Oldest", "State")


@queues.command(name="list")
def list_all(database: Database = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """List queues with their counts.

    Example:

      hookwire queues list
    """
    if database is not None:
        from app.cli.working.mysql_queues import listed_queues

        run(listed_queues(database, as_json=as_json))
    nothing = "there is no queue yet"
    run(print_listed("/queues", {}, None, url, config, _HEADS, _row, ("Queue",), nothing, as_json=as_json))


@queues.command()
def create(
    name: Name, database: Annotated[str, typer.Option("--database", help="The MariaDB or MySQL.")],
    deliveries_max: Annotated[
        int, typer.Option("--deliveries-max", min=1, max=1000, help="A message is dead after as many deliveries.")
    ] = 5,
    archive: Annotated[bool, typer.Option("--archive", help="Keep accepted messages in NAME_archive.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make a queue in MariaDB or MySQL: a table of its name. In PostgreSQL the first use makes a queue.

    Example:

      hookwire queues create mail --database mysql://shop:secret@127.0.0.1/shop
    """
    from app.cli.working.mysql_queues import created

    run(created(database, name, deliveries_max, archive=archive, as_json=as_json))


@queues.command()
def show(name: Name, database: Database = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the settings and counts of a queue as JSON; with --json on one line.

    Example:

      hookwire queues show mail
    """
    if database is not None:
        from app.cli.working.mysql_queues import printed

        run(printed(database, name, as_json=as_json))
    run(print_one(f"/queues/{segment(name)}", url, config, as_json=as_json))


@queues.command()
def stats(
    queue: Name, since: Since = None, until: Until = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Print the rate of a queue, its success, and how long work took.

    Example:

      hookwire queues stats mail --since 1d
    """
    path = f"/queues/{segment(queue)}/stats"
    run(print_stats(path, work_lines, {"since": since, "until": until}, url, config, as_json=as_json))


@queues.command()
def submit(
    name: Name, payload: Payload = "-", content_type: ContentType = None, delay: Delay = 0.0,
    database: Database = None, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Submit one message.

    Example:

      hookwire queues submit mail '{"to": "ada@example.org"}' --content-type application/json
    """
    headers = {"Content-Type": line("--content-type", content_type)} if content_type else {}
    headers |= {"Hookwire-Delay-Seconds": str(delay)} if delay else {}
    body = read_data(payload)  # before the event loop runs, which would keep Ctrl-C from ending the read
    if database is not None:
        from app.cli.working.mysql_queues import submitted

        run(submitted(database, name, body, headers.get("Content-Type"), delay, as_json=as_json))
    run(_submit(name, body, headers, url, as_json, config))


@queues.command()
def peek(
    name: Name, limit: Limit = 10, database: Database = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Print available messages as JSON, with --json on one line; nothing is changed.

    Example:

      hookwire queues peek mail --limit 1
    """
    if database is not None:
        from app.cli.working.mysql_queues import printed_messages

        run(printed_messages(database, name, limit, dead=False, as_json=as_json))
    run(print_one(f"/queues/{segment(name)}/messages?limit={limit}", url, config, as_json=as_json))


@queues.command()
def dead(
    name: Name, limit: Limit = 100, database: Database = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Print dead letters of a queue as JSON; with --json on one line.

    Example:

      hookwire queues dead mail
    """
    if database is not None:
        from app.cli.working.mysql_queues import printed_messages

        run(printed_messages(database, name, limit, dead=True, as_json=as_json))
    run(print_one(f"/queues/{segment(name)}/dead?limit={limit}", url, config, as_json=as_json))


@queues.command()
def redrive(
    name: Name, ids: Ids = None, why: Why = None, database: Database = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Return dead letters to their old places in the queue.

    Example:

      hookwire queues redrive mail --why 'template mended'
    """
    if database is not None:
        from app.cli.working.mysql_queues import acted

        run(acted(database, name, "redrive", ids, as_json=as_json))
    _chosen(name, "dead/redrive", ids, why, url, config, as_json=as_json)


@queues.command()
def purge(
    name: Name, ids: Ids = None, why: Why = None, database: Database = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Delete dead letters of a queue.

    Example:

      hookwire queues purge mail --id msg_7
    """
    if database is not None:
        from app.cli.working.mysql_queues import acted

        run(acted(database, name, "purge", ids, as_json=as_json))
    _chosen(name, "dead/purge", ids, why, url, config, as_json=as_json)


@queues.command()
def pause(name: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Hand out no messages of a queue until it is resumed.

    Example:

      hookwire queues pause mail --why 'mail server moves'
    """
    _verb(name, "pause", why, url, config, as_json=as_json)


@queues.command()
def resume(name: Name, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """End a pause.

    Example:

      hookwire queues resume mail
    """
    _verb(name, "resume", why, url, config, as_json=as_json)


@queues.command()
def graduate(name: Name, as_json: Json = False, config: Config = None) -> None:
    """Give a queue a table of its own, and move its messages there. Works on the database itself.

    The table may then get columns of its own that link to your rows. No message is lost or repeated. Receivers pass
    over messages that are moved at that moment; pause the queue meanwhile if their order matters.

    Example:

      hookwire queues graduate orders
    """
    run(_graduate(name, config, as_json=as_json))


def _chosen(
    name: str, verb: str, ids: list[str] | None, why: str | None, url: str | None, config: Any, *, as_json: bool
) -> None:
    path, asked = f"/queues/{segment(name)}/{verb}", {"ids": ids or None, "reason": why}
    run(print_done(path, asked, lambda done: f"{len(done['ids'])} done", url, config, as_json=as_json))


def _verb(name: str, verb: str, why: str | None, url: str | None, config: Any, *, as_json: bool) -> None:
    path, done = f"/queues/{segment(name)}/{verb}", {"queue": name, "done": f"{verb}d"}
    words = f"{name}: {verb}d"
    run(print_done(path, {"reason": why}, lambda _: words, url, config, as_json=as_json, if_empty=done))


def _row(queue: dict[str, Any]) -> tuple[str, ...]:
    counts = queue["counts"]
    numbers = (str(counts[name]) for name in ("available", "claimed", "delayed", "dead"))
    state = "paused" if queue["paused"] else "temporary" if queue["expires_at"] else ""
    return (queue["queue"], *numbers, shown_moment(counts["oldest_at"]), state)


async def _submit(name: str, body: bytes, headers: dict[str, str], url: str | None, as_json: bool, config: Any) -> int:
    from app.cli.hub_client import hub_of, post

    address = f"{hub_of(url, config)}/queues/{segment(name)}/messages"
    made, _ = await post(address, body, headers, deadline_seconds=30.0)
    say(json.dumps(made) if as_json else "\n".join(made["ids"]))
    return 0


async def _graduate(name: str, config: Any, *, as_json: bool) -> int:
    from app.cli.database import opened_database
    from db.errors import Refused

    moved = 0
    async with opened_database(settings_from(config), application_name="hookwire queues") as database:
        try:
            table = await database.fetchval("queue.graduate", name)
        except Refused as refused:
            raise CommandFailed(refused.message, 2) from None
        while batch := await database.fetchval("queue.graduate_batch", name, 1_000):
            moved += batch
    words = f"{name} has its own table {table}; {counted(moved, 'message')} {were(moved)} moved"
    say(json.dumps({"queue": name, "table": table, "moved": moved}) if as_json else words)
    return 0
