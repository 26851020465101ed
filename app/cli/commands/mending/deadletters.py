"""``hookwire deadletters``: held and dead records of brokers, and dead deliveries of webhooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, Why, run, say
from app.cli.failure import CommandFailed
from app.cli.lines.narrow import Narrow
from app.cli.listing import print_done, print_one
from app.cli.moment import shown_moment

__all__ = ["deadletters"]

deadletters = typer.Typer(
    help="Holds (records that wait because a broker refused one) and dead letters (given up): list, show, retry, give "
    "up, purge.",
    no_args_is_help=True,
)
Thing = Annotated[
    str, typer.Argument(metavar="HOLD_OR_LETTER", help="hold_3, dead_kafka_42 or dlv_42_7, as `list` shows it.")
]
Waiting = Annotated[
    str,
    typer.Argument(
        metavar="HOLD_OR_DELIVERY", help="hold_3, as `list` shows it, or a delivery that waits, such as dlv_42_7."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every record that waits, not only the oldest.")]
Sink = Annotated[str | None, typer.Option("--sink", help="kafka, amqp or webhooks.")]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help="refused, exhausted, too_late, declined, aborted, given_up or internal; or what ended by itself: gone, "
        "erased.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of holds, and of dead letters.")]
Each = Annotated[bool, typer.Option("--each", help="Show each dead letter, also where there are many.")]

_EACH_MAX: Final = 20
"""More dead letters than these are shown in groups."""


@deadletters.command(name="list")
def list_all(
    sink: Sink = None, kind: Kind = None, limit: Limit = 1000, each: Each = False, url: Url = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List holds, then dead letters: where there are more than 20, in groups of one receiver, topic and answer.

    Deliveries that ended with their subscription ask for no action. Only --kind gone lists them.

    Examples:

      hookwire deadletters list

      hookwire deadletters list --each --limit 50

      hookwire deadletters list --sink kafka --json
    """
    run(_list({"sink": sink, "kind": kind}, limit, each, url, as_json, config))


@deadletters.command()
def show(thing: Thing, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print one hold or dead letter with all its fields as JSON; with --json on one line.

    Example:

      hookwire deadletters show hold_3
    """
    run(print_one(_path(thing), url, config, as_json=as_json))


@deadletters.command()
def retry(thing: Thing, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Retry a hold or a dead letter now. For many dead letters: hookwire replay --dead-letters.

    Example:

      hookwire deadletters retry dlv_42_7 --why 'endpoint repaired'
    """
    _verb(thing, "retry", why, url, as_json, config)


@deadletters.command()
def give_up(
    thing: Waiting, everything: All = False, why: Why = None, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Turn a delivery that waits, or the oldest record of a hold, into a dead letter, so that the next one goes on.

    With --all, turn every record of the hold.

    Examples:

      hookwire deadletters give-up dlv_42_7 --why 'the customer left'

      hookwire deadletters give-up hold_3 --why 'malformed, ticket 4711'

      hookwire deadletters give-up hold_3 --all --why 'test data'
    """
    if not thing.startswith(("hold_", "dlv_")):
        raise CommandFailed(f"{thing} is neither a hold (hold_...) nor a delivery (dlv_...)", 2)
    if everything and not thing.startswith("hold_"):
        raise CommandFailed(f"--all is for a hold, and {thing} is one delivery", 2)
    _verb(thing, "give-up", why, url, as_json, config, everything=everything)


@deadletters.command()
def purge(thing: Thing, why: Why = None, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Delete a dead letter. Its event stays until its retention ends.

    Example:

      hookwire deadletters purge dead_kafka_42 --why 'test data'
    """
    if thing.startswith("hold_"):
        raise CommandFailed(f"{thing} is a hold; `hookwire deadletters give-up {thing} --all` gives up its records", 2)
    _verb(thing, "purge", why, url, as_json, config)


def _path(thing: str, verb: str = "") -> str:
    kind = "holds" if thing.startswith("hold_") else "deliveries" if verb == "give-up" else "dead-letters"
    return f"/{kind}/{segment(thing)}{verb and f'/{verb}'}"


def _verb(
    thing: str, verb: str, why: str | None, url: str | None, as_json: bool, config: Path | None, *,
    everything: bool = False,
) -> None:  # fmt: skip
    asked = {"reason": why} | ({"all": True} if everything else {})

    def words_of(done: dict[str, Any]) -> str:
        if "dead_letters" not in done:
            return f"{thing} {done['done'].replace('_', ' ')}"
        many = f"{done['dead_letters']} record{'' if done['dead_letters'] == 1 else 's'}"
        return f"{thing} is retried now" if verb == "retry" else f"{thing}: gave up {many}, now dead letters"

    run(print_done(_path(thing, verb), asked, words_of, url, config, as_json=as_json))


async def _list(
    asked: dict[str, str | None], limit: int, each: bool, url: str | None, as_json: bool, config: Path | None
) -> int:
    from app.cli.hub_client import get_all, hub_of

    hub, params = hub_of(url, config), {name: text for name, text in asked.items() if text}
    of_sink = {name: text for name, text in params.items() if name == "sink"}
    holds = await get_all(f"{hub}/holds", of_sink, limit) if asked["kind"] is None else []
    dead = await get_all(f"{hub}/dead-letters", params, limit)
    if as_json:
        say(json.dumps({"holds": holds, "dead_letters": dead}))
    else:
        _print_holds(holds)
        (_print_each if each or len(dead) <= _EACH_MAX else _print_groups)(dead)
        more = f"; only the first {limit} were read: use --limit" if limit in (len(holds), len(dead)) else ""
        say(f"{len(holds)} hold{'s' * (len(holds) != 1)}, {len(dead)} dead letter{'s' * (len(dead) != 1)}{more}")
    return 0


def _print_holds(holds: list[dict[str, Any]]) -> None:
    from app.cli.table import show

    rows = [
        (h["id"], h["sink"], h["topic"], h["key"] or f"({h['scope']})", str(h["records"]), h["reason"], h["detail"])
        for h in holds
    ]
    heads = ("Id", "Sink", "Topic", "Key", "Records", "Reason", "Detail")
    cuts = ("Topic", "Key", "Reason", "Detail")
    narrow = Narrow(("Id", "Sink", "Records:", "Topic", "Key"), ("Reason", "Detail"), cuts)
    if rows:
        show(heads, rows, ("Topic", "Key", "Detail"), "Holds: they wait, and are tried again by themselves", narrow)


def _print_each(dead: list[dict[str, Any]]) -> None:
    from app.cli.table import show

    rows = [(d["id"], *_group(d)[:2], d["key"] or "", shown_moment(d["died_at"]), d["reason"]) for d in dead]
    heads = ("Id", "For", "Topic", "Key", "Since", "Reason")
    narrow = Narrow(("Id", "Since", "Topic", "For"), ("Key:", "Reason"), cuts=("Topic", "For", "Key", "Reason"))
    if rows:
        show(heads, rows, ("For", "Topic", "Key", "Reason"), "Dead letters", narrow)


def _print_groups(dead: list[dict[str, Any]]) -> None:
    """Print a row for the dead letters of one receiver, topic and answer, the largest group first."""
    from app.cli.table import show

    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for one in dead:
        groups.setdefault(_group(one), []).append(one)
    rows = [
        (str(len(ones)), *group, shown_moment(max(one["died_at"] for one in ones)), ones[0]["id"])
        for group, ones in sorted(groups.items(), key=lambda found: -len(found[1]))
    ]
    heads = ("Count", "For", "Topic", "Kind", "Last answer", "Latest", "For example")
    narrow = Narrow(
        ("Count", "Kind", "Last answer", "Topic", "For"),
        ("Latest:", "For example:"),
        cuts=("Topic", "For", "Last answer"),
    )
    show(heads, rows, ("For", "Topic"), "Dead letters; each of them: --each", narrow)


def _group(one: dict[str, Any]) -> tuple[str, ...]:
    """Return the receiver, the topic, the kind and the last answer."""
    answer = str(one["last_status"] or one["last_outcome"] or "")
    return one["callback"] or one["sink"], one["topic"] or "(event is gone)", one["kind"], answer
