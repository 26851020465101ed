"""``hookwire tasks``: list and manage transactional tasks, for people."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, Why, parsed, run, say, settings_from
from app.cli.failure import CommandFailed
from app.cli.lines.stats import Since, Until, print_stats, work_lines
from app.cli.listing import print_done, print_listed, print_one
from app.cli.moment import shown_moment
from app.cli.named_values import named_values

__all__ = ["tasks"]

tasks = typer.Typer(help="Tasks: enqueue, list, show, cancel, dead tasks, kinds.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="The task's id.")]
KindName = Annotated[str, typer.Argument(help="The kind; * stands for all.")]
Args = Annotated[str, typer.Argument(help="Arguments as JSON.")]
OfKind = Annotated[str | None, typer.Option("--kind", help="Only tasks of this kind.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of tasks to list.")]
Numbers = Annotated[
    list[int] | None, typer.Option("--number", help="A dead task; may be repeated. Default: the oldest 500.")
]
Delay = Annotated[float, typer.Option("--delay", min=0, help="Seconds before the task can begin.")]
Settings = Annotated[list[str], typer.Option("--set", help="A setting, such as on_crash=abandon or crash_seconds=600.")]
_HEADS = ("Id", "Kind", "State", "Attempts", "Worker", "Last error")
_DEAD_HEADS = ("Number", "Id", "Kind", "Attempts", "Reason", "Since")


@tasks.command()
def enqueue(
    kind: KindName, args: Args = "{}", delay: Delay = 0.0, as_json: Json = False, config: Config = None
) -> None:
    """Enqueue a task, in a transaction of its own. Works on the database itself.

    Example:

      hookwire tasks enqueue mail.send '{"to": "ada@example.org"}'
    """
    parsed("ARGS", args)
    run(_enqueue(kind, args, delay, config, as_json=as_json))


@tasks.command(name="list")
def list_all(
    kind: OfKind = None, limit: Limit = 100, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """List tasks that are not finished, newest first.

    Example:

      hookwire tasks list --kind mail.send
    """
    run(
        print_listed(
            "/tasks", {"kind": kind}, limit, url, config, _HEADS, _row, ("Last error",), "no task is unfinished",
            as_json=as_json, no_match="no unfinished task matches",
        )
    )  # fmt: skip


@tasks.command()
def show(task: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one task as JSON; with --json on one line.

    Example:

      hookwire tasks show 0b6f3f0e-95a5-4e5d-8a39-3f4c1f0f6a11
    """
    run(print_one(f"/tasks/{segment(task)}", url, config, as_json=as_json))


@tasks.command()
def stats(
    kind: KindName,
    since: Since = None,
    until: Until = None,
    url: Url = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print the rate of a kind of tasks, its success, and how long work took.

    Example:

      hookwire tasks stats mail.send --since 1d
    """
    path = f"/task-kinds/{segment(kind)}/stats"
    run(print_stats(path, work_lines, {"since": since, "until": until}, url, config, as_json=as_json))


@tasks.command()
def counts(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print how many tasks there are, by state, as JSON; with --json on one line.

    Example:

      hookwire tasks counts
    """
    run(print_one("/tasks/counts", url, config, as_json=as_json))


@tasks.command()
def cancel(task: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Remove a task that no worker has begun.

    Example:

      hookwire tasks cancel 0b6f3f0e-95a5-4e5d-8a39-3f4c1f0f6a11 --why 'wrong address'
    """
    path, done = f"/tasks/{segment(task)}/cancel", {"id": task, "done": "cancelled"}
    words = f"{task}: cancelled"
    run(print_done(path, {"reason": why}, lambda _: words, url, config, as_json=as_json, if_empty=done))


@tasks.command()
def dead(
    kind: OfKind = None, limit: Limit = 100, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """List dead tasks, oldest first.

    Example:

      hookwire tasks dead
    """
    run(
        print_listed(
            "/tasks/dead", {"kind": kind}, limit, url, config, _DEAD_HEADS, _dead_row, ("Reason",), "no task is dead",
            as_json=as_json, no_match="no dead task matches",
        )
    )  # fmt: skip


@tasks.command()
def redrive(
    number: Numbers = None, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Return dead tasks and count their attempts anew.

    Example:

      hookwire tasks redrive --number 7 --why 'mail server is back'
    """
    _chosen("redrive", number, why, url, config, as_json=as_json)


@tasks.command()
def purge(
    number: Numbers = None, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Delete dead tasks.

    Example:

      hookwire tasks purge --number 7
    """
    _chosen("purge", number, why, url, config, as_json=as_json)


@tasks.command()
def kind(name: KindName, settings: Settings, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Set how tasks of a kind are treated. Settings that are left out are those of the kind *.

    Example:

      hookwire tasks kind mail.send --set on_crash=abandon --set crash_seconds=600
    """
    path = f"/task-kinds/{segment(name)}"
    run(print_done(path, named_values(settings), None, url, config, as_json=as_json, method="PUT"))


def _chosen(
    verb: str, numbers: list[int] | None, why: str | None, url: str | None, config: Any, *, as_json: bool
) -> None:
    asked = {"numbers": numbers or None, "reason": why}
    path = f"/tasks/dead/{verb}"
    run(print_done(path, asked, lambda done: f"{len(done['numbers'])} done", url, config, as_json=as_json))


async def _enqueue(kind: str, args: str, delay: float, config: Any, *, as_json: bool) -> int:
    from app.cli.database import opened_database
    from db.errors import Refused

    async with opened_database(settings_from(config), application_name="hookwire tasks") as database:
        try:
            task = str(await database.fetchval("task.enqueue", kind, args, delay, None))
        except Refused as refused:
            raise CommandFailed(refused.message, 2) from None
    say(json.dumps({"id": task}) if as_json else task)
    return 0


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    words = (one["id"], one["kind"], one["state"], str(one["attempts"]))
    return (*words, one["worker"] or "", one["last_error"] or "")


def _dead_row(one: dict[str, Any]) -> tuple[str, ...]:
    words = (str(one["number"]), one["id"], one["kind"], str(one["attempts"]))
    return (*words, one["reason"], shown_moment(one["died_at"]))
