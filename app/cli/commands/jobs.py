"""``hookwire jobs``: enqueue, read and manage jobs, for people and operators."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app.cli.data import line, segment
from app.cli.entry import Config, Json, Url, Why, parsed, run, say
from app.cli.failure import CommandFailed
from app.cli.lines.stats import Since, print_stats, work_lines
from app.cli.listing import listed, print_done, print_listed, print_one
from app.cli.moment import shown_moment
from app.cli.named_values import named_values

__all__ = ["jobs"]

jobs = typer.Typer(help="Jobs: enqueue, list, show, assign, delay, review, kinds, periodic.", no_args_is_help=True)
periodic = typer.Typer(help="Schedules that enqueue jobs.", no_args_is_help=True)
jobs.add_typer(periodic, name="periodic")

Id = Annotated[str, typer.Argument(help="The job's id.")]
KindName = Annotated[str, typer.Argument(help="The kind; * stands for all.")]
StatsKind = Annotated[
    str | None, typer.Option("--kind", help="Instead: rate, success and times of this kind, since --since.")
]
Args = Annotated[str, typer.Argument(help="Arguments as JSON.")]
OfKind = Annotated[str | None, typer.Option("--kind", help="Only jobs of this kind.")]
OfState = Annotated[str | None, typer.Option("--state", help="Only jobs in this state, such as review or completed.")]
Of = Annotated[str | None, typer.Option("--assignee", help="Only jobs that are assigned to this person; me: to you.")]
Pool = Annotated[bool, typer.Option("--pool", help="Only jobs that wait for a person to take them.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of jobs to list.")]
Uniq = Annotated[
    str | None, typer.Option("--uniq", help="Unique among live jobs of the kind; - derives it from the arguments.")
]
Key = Annotated[str | None, typer.Option("--key", help="The limits per key count jobs with the same key.")]
Priority = Annotated[
    int | None, typer.Option("--priority", min=-1000, max=1000, help="A job with a higher priority is claimed earlier.")
]
Delay = Annotated[float | None, typer.Option("--delay", min=0, help="Seconds before the job is available.")]
Attempts = Annotated[
    int | None,
    typer.Option("--attempts", min=1, max=1_000_000, help="The number of attempts before it fails for good."),
]
RunSeconds = Annotated[float | None, typer.Option("--timeout", min=0.05, help="Seconds that one attempt may take.")]
Deadline = Annotated[
    float | None, typer.Option("--deadline", min=0.05, help="Seconds from now after which it fails, done or not.")
]
OnStatus = Annotated[
    str | None, typer.Option("--on-status", help="A kind: such a job is enqueued with every change of state.")
]
OnComplete = Annotated[str | None, typer.Option("--on-complete", help="A kind: such a job is enqueued on success.")]
OnRetry = Annotated[
    str | None, typer.Option("--on-retry", help="A kind: such a job is enqueued for each failed attempt but the last.")
]
OnFail = Annotated[
    str | None, typer.Option("--on-fail", help="A kind: such a job is enqueued once, after the last failed attempt.")
]
To = Annotated[str | None, typer.Option("--to", help="The person. Default: yourself.")]
Until = Annotated[
    str, typer.Option("--until", help="A time such as 2026-07-01T09:00: local in --zone, or with an offset.")
]
Zone = Annotated[str | None, typer.Option("--zone", help="A time zone such as Europe/Berlin.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", help="Makes repeats safe: the same call with it makes one job.")
]
ToPool = Annotated[bool, typer.Option("--to-pool", help="Return the job to the pool at that time.")]
Result = Annotated[str, typer.Option("--result", help="JSON.")]
Settings = Annotated[
    list[str], typer.Option("--set", help="A setting, such as automation=manual or key_running_max=2.")
]
Name = Annotated[str, typer.Argument(help="The schedule.")]
Days = Annotated[int, typer.Option("--days", min=1, max=3660, help="Count jobs that ended in this number of days.")]
_HEADS = ("Id", "Kind", "State", "Assignee", "Worker", "Attempts", "Due")


@jobs.command()
def enqueue(
    kind: KindName, args: Args = "{}", uniq: Uniq = None, key: Key = None, priority: Priority = None,
    delay: Delay = None, attempts: Attempts = None, timeout: RunSeconds = None, deadline: Deadline = None,
    on_status: OnStatus = None, on_complete: OnComplete = None, on_retry: OnRetry = None, on_fail: OnFail = None,
    assignee: To = None, idempotency_key: IdempotencyKey = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Enqueue a job and print its id. Values that are left out are those of the kind.

    Examples:

      hookwire jobs enqueue invoice.check '{"invoice": 4711}' --uniq 4711

      hookwire jobs enqueue video.cut --attempts 3 --timeout 600 --deadline 7200 --on-fail ops.call
    """
    callbacks = {"on_status": on_status, "on_complete": on_complete, "on_retry": on_retry, "on_fail": on_fail}
    named_callbacks = {name: value for name, value in callbacks.items() if value is not None}
    draft = {"kind": kind, "args": parsed("ARGS", args), "uniq": uniq, "key": key, "priority": priority,
             "delay_seconds": delay, "attempts_max": attempts, "run_seconds": timeout, "deadline_seconds": deadline,
             "callbacks": named_callbacks or None, "assignee": assignee}  # fmt: skip
    asked = {name: value for name, value in draft.items() if value is not None}
    named = {"Idempotency-Key": line("--idempotency-key", idempotency_key)} if idempotency_key is not None else {}
    run(print_done("/jobs", asked, lambda made: str(made["id"]), url, config, as_json=as_json, headers=named))


@jobs.command(name="list")
def list_all(
    kind: OfKind = None, state: OfState = None, assignee: Of = None, pool: Pool = False, limit: Limit = 100,
    url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List jobs, newest first.

    Example:

      hookwire jobs list --assignee me
    """
    filters = {"kind": kind, "state": state, "assignee": assignee, "pool": "true" if pool else None}
    run(print_listed("/jobs", filters, limit, url, config, _HEADS, _row, (), "no job matches", as_json=as_json))


@jobs.command()
def show(job: Id, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one job and its trail of actions.

    Example:

      hookwire jobs show 7b0b1f0c-6f0e-4a53-9a0c-6b1f0f2a9d11
    """
    run(print_one(f"/jobs/{segment(job)}", url, config, as_json=as_json, show=_print_job))


@jobs.command()
def assign(
    job: Id, to: To = None, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Take a job of the pool, or assign it to a person.

    Example:

      hookwire jobs assign 7b0b1f0c-6f0e-4a53-9a0c-6b1f0f2a9d11 --to ada
    """
    _act(job, "assign", {"assignee": to, "reason": why}, url, config, as_json=as_json)


@jobs.command()
def unassign(job: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Return a job to the pool."""
    _act(job, "unassign", {"reason": why}, url, config, as_json=as_json)


@jobs.command()
def delay(
    job: Id, until: Until, zone: Zone = None, to_pool: ToPool = False, why: Why = None, url: Url = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Delay a job to a date.

    Example:

      hookwire jobs delay 7b0b1f0c-6f0e-4a53-9a0c-6b1f0f2a9d11 --until 2026-07-01T09:00 --zone Europe/Berlin
    """
    date = {"due_local": until, "due_zone": zone} if zone else {"due_at": until}
    _act(job, "delay", {**date, "to_pool": to_pool, "reason": why}, url, config, as_json=as_json)


@jobs.command()
def finish(
    job: Id, result: Result = "null", why: Why = None, url: Url = None, as_json: Json = False, config: Config = None
) -> None:
    """Finish an assigned job."""
    _act(job, "finish", {"result": parsed("--result", result), "reason": why}, url, config, as_json=as_json)


@jobs.command()
def approve(job: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Approve a job in review."""
    _act(job, "approve", {"reason": why}, url, config, as_json=as_json)


@jobs.command(name="send-back")
def send_back(job: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Send a job in review back.

    Example:

      hookwire jobs send-back 7b0b1f0c-6f0e-4a53-9a0c-6b1f0f2a9d11 --why 'one page is missing'
    """
    _act(job, "send-back", {"reason": why}, url, config, as_json=as_json)


@jobs.command()
def decline(job: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Give up a job in review, or one that is assigned to you."""
    _act(job, "decline", {"reason": why}, url, config, as_json=as_json)


@jobs.command()
def cancel(job: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Cancel a job; one that runs is asked to stop."""
    _act(job, "cancel", {"reason": why}, url, config, as_json=as_json)


@jobs.command()
def retry(job: Id, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Run a job now, or again."""
    _act(job, "retry", {"reason": why}, url, config, as_json=as_json)


@jobs.command()
def stats(
    days: Days = 14, kind: StatsKind = None, since: Since = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Print the numbers of jobs, and of ended jobs by performer. With --kind: how fast jobs of it are done.

    Examples:

      hookwire jobs stats --days 30

      hookwire jobs stats --kind invoice.check --since 1d
    """
    if kind is not None:
        path, asked = f"/job-kinds/{segment(kind)}/stats", {"since": since, "until": None}
        run(print_stats(path, work_lines, asked, url, config, as_json=as_json))
    if since is not None:
        raise CommandFailed("--since needs --kind; without it, --days says how far back", 2)
    params = {"days": str(days)}
    run(print_one("/jobs/statistics", url, config, as_json=as_json, show=_print_statistics, params=params))


@jobs.command()
def kind(name: KindName, settings: Settings, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Set how jobs of a kind are treated. Settings that are left out are those of the kind *.

    Example:

      hookwire jobs kind invoice.check --set automation=assisted --set reviewer_differs=true
    """
    path = f"/job-kinds/{segment(name)}"
    run(print_done(path, named_values(settings), None, url, config, as_json=as_json, method="PUT"))


@jobs.command()
def pause(name: KindName, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Stop handing out jobs of a kind."""
    _turn(name, "pause", why, url, config, as_json=as_json)


@jobs.command()
def resume(name: KindName, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Hand jobs of a kind out again."""
    _turn(name, "resume", why, url, config, as_json=as_json)


@periodic.command(name="list")
def list_periodic(url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the schedules as JSON; with --json on one line."""
    run(_list_periodic(url, config, indent=None if as_json else 2))


@periodic.command(name="set")
def set_periodic(
    name: Name,
    cron: Annotated[str, typer.Argument(help="Minute, hour, day, month, day of the week.")],
    kind: KindName,
    args: Args = "{}",
    zone: Zone = None,
    url: Url = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make or change a schedule, which enqueues a job at each of its times.

    Example:

      hookwire jobs periodic set morning '30 6 * * mon-fri' report --zone Europe/Berlin
    """
    body = {"cron": cron, "zone": zone or "UTC", "job": {"kind": kind, "args": parsed("ARGS", args)}}
    path = f"/job-schedules/{segment(name)}"
    run(print_done(path, body, lambda made: f"next at {made['next_at']}", url, config, as_json=as_json, method="PUT"))


@periodic.command(name="remove")
def remove_periodic(name: Name, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Remove a schedule."""
    path, words = f"/job-schedules/{segment(name)}", f"{name}: removed"
    run(
        print_done(path, None, lambda _: words, url, config, as_json=as_json, method="DELETE", if_empty={"done": words})
    )


def _act(job: str, verb: str, body: dict[str, Any], url: str | None, config: Any, *, as_json: bool) -> None:
    asked = {name: value for name, value in body.items() if value is not None}
    path = f"/jobs/{segment(job)}/{verb}"
    run(print_done(path, asked, lambda made: f"{job}: {made['state']}", url, config, as_json=as_json))


def _turn(name: str, verb: str, why: str | None, url: str | None, config: Any, *, as_json: bool) -> None:
    path, words = f"/job-kinds/{segment(name)}/{verb}", f"{name}: {verb}d"
    done = {"done": words}
    run(print_done(path, {"reason": why}, lambda _: words, url, config, as_json=as_json, if_empty=done))


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    words = (job["id"], job["kind"], job["state"], job["assignee"] or "", job["worker"] or "")
    return (*words, str(job["attempts"]), shown_moment(job["due_at"]))


async def _list_periodic(url: str | None, config: Any, *, indent: int | None) -> int:
    say(json.dumps(await listed("/job-schedules", {}, None, url, config), indent=indent))
    return 0


def _print_job(found: dict[str, Any]) -> None:
    from app.cli.table import show as show_table

    facts = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in found.items()
        if value not in (None, [], False) and name != "trail"
    ]
    show_table(("", ""), facts, ("",))
    if found["trail"]:
        acts = [(act["at"][:19], act["actor"], act["verb"], act["reason"] or "") for act in found["trail"]]
        show_table(("When", "Who", "What", "Why"), acts, ("Why",))


def _print_statistics(found: dict[str, Any]) -> None:
    from app.cli.table import show as show_table

    live = [(row["kind"], row["state"], "", str(row["jobs"]), "") for row in found["live"]]
    ended = [
        (row["kind"], row["state"], row["performer"] or "", str(row["jobs"]), f"{row['total_seconds'] or 0:.0f} s")
        for row in found["ended"]
    ]
    show_table(("Kind", "State", "By", "Jobs", "Took"), live + ended)
