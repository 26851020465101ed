"""``hookwire layout``: show and change the partition groups of sinks and the order scope."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.entry import Config, Json, run, say, settings_from
from app.cli.failure import CommandFailed
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from relay.layout import Layout, LayoutPlan
    from relay.sink import Sink

__all__ = ["layout"]

_APPLICATION = "hookwire layout"
layout = typer.Typer(
    help="Partition groups of each sink, and the order scope: show and change them while relays run.",
    no_args_is_help=True,
)


@layout.command()
def show(as_json: Json = False, config: Config = None) -> None:
    """Print the layout, and the leader of each group.

    Example:

      hookwire layout show
    """
    run(_show(settings_from(config), as_json))


@layout.command()
def change(
    groups: Annotated[
        list[str] | None, typer.Option("--groups", help="SINK=N, such as kafka=8; may be repeated for other sinks.")
    ] = None,
    order_scope: Annotated[
        str | None,
        typer.Option("--order-scope", help="topic_key: a key is in order within its topic; key: across all topics."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change and do nothing.")] = False,
    why: Annotated[str | None, typer.Option("--why", help="The reason, for the audit trail.")] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Change the layout of a running fleet. Publishing continues; the changed sinks pause for some seconds.

    Needs the settings of the relays: old producers are fenced at their brokers.

    Examples:

      hookwire layout change --groups kafka=8 --dry-run

      hookwire layout change --groups kafka=8 --why 'two more relays'

      hookwire layout change --order-scope key
    """
    wanted = _groups(groups or [])
    if order_scope not in (None, "topic_key", "key"):
        raise CommandFailed(f"--order-scope is topic_key or key, not {order_scope!r}", 2)
    if not wanted and order_scope is None:
        raise CommandFailed("nothing to change: give --groups SINK=N or --order-scope", 2)
    run(_change(settings_from(config), wanted, order_scope, dry_run, why, as_json))


def _groups(words: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        sink, _, number = word.partition("=")
        if not (sink and number.isascii() and number.isdigit() and len(number) <= 3):
            raise CommandFailed(f"--groups is SINK=N, such as kafka=8, not {word!r}", 2)
        found[sink] = int(number)
    return found


async def _show(settings: Settings, as_json: bool) -> int:
    from app.cli.database import opened_database
    from relay.layout import read_layout

    async with opened_database(settings, application_name=_APPLICATION) as database:
        present = await read_layout(database)
        leases = [dict(row) for row in await database.fetch("layout.leases")]
    if as_json:
        say(json.dumps({**_document(present), "seats": leases}))
        return 0
    say(f"layout {present.number}, order scope {present.order_scope}")
    for lease in leases:
        state = (
            "" if lease["is_open"] else "   closed: a change is in progress or was interrupted; run the change again"
        )
        say(f"  {lease['sink']:9} group {lease['grp']:2}  term {lease['term']:<6} {lease['owner'] or 'nobody'}{state}")
    return 0


async def _change(
    settings: Settings,
    groups: Mapping[str, int],
    order_scope: str | None,
    dry_run: bool,
    why: str | None,
    as_json: bool,
) -> int:
    from app.assembly.storage import incarnation_of
    from app.cli.database import opened_database
    from db.direct import connect_direct
    from relay.layout import LayoutChange, LayoutRefused, Relayout, WrongLayout

    async with opened_database(settings, application_name=_APPLICATION) as database:
        incarnation = await incarnation_of(database)
        relayout = Relayout(
            database,
            lambda: connect_direct(database.options),
            incarnation,
            lambda name: _fencing_sink(settings, name, incarnation),
            lambda text: print(text, file=sys.stderr),  # noqa: T201 - progress, beside the result
        )
        wanted = LayoutChange(groups, order_scope)  # type: ignore[arg-type]
        try:
            plan = await relayout.plan(wanted)
            _refuse_strange_sinks(settings, plan)
            if not dry_run:
                plan = await relayout.run(wanted, getpass.getuser(), why)
        except LayoutRefused as refused:
            code = 2 if isinstance(refused, WrongLayout) else 1
            raise CommandFailed(f"the layout was not changed: {refused}", code) from None
    _report(plan, dry_run, as_json)
    return 0


def _fencing_sink(settings: Settings, name: str, incarnation: str) -> Sink | None:
    """Return the sink to fence. An inner sink names its term in its statement, so it needs no other fence."""
    from app.assembly.sinks import INNER_SINKS, sink_maker

    return None if name in INNER_SINKS else sink_maker(name, settings, incarnation)(lambda: True)


def _refuse_strange_sinks(settings: Settings, plan: LayoutPlan) -> None:
    from app.assembly.sinks import configured_sinks

    strange = [sink for sink in plan.sinks if sink not in configured_sinks(settings)]
    if strange:
        variables = {"kafka": "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS", "amqp": "HOOKWIRE_AMQP_URL"}
        names = ", ".join(variables.get(sink, sink) for sink in strange)
        raise CommandFailed(f"{', '.join(strange)}: old producers have to be fenced there; set {names}", 2)


def _report(plan: LayoutPlan, dry_run: bool, as_json: bool) -> None:
    if as_json:
        document = {
            "before": _document(plan.before),
            "after": _document(plan.after if plan.sinks else plan.before),
            "sinks": list(plan.sinks),
            "waiting": dict(plan.waiting),
            "relays": list(plan.owners),
            "dry_run": dry_run,
        }
        say(json.dumps(document))
        return
    if not plan.sinks:
        say(f"layout {plan.before.number} has these values already; nothing to do")
        return
    say(f"layout {plan.before.number} -> {plan.after.number}{', not done: a dry run' if dry_run else ''}")
    if plan.before.order_scope != plan.after.order_scope:
        say(f"  order scope {plan.before.order_scope} -> {plan.after.order_scope}")
    for sink in plan.sinks:
        before, after = plan.before.groups_of(sink), plan.after.groups_of(sink)
        say(f"  {sink}: {before} -> {counted(after, 'group')}; {counted(plan.waiting[sink], 'event')} waited")
    say(f"  relays: {', '.join(plan.owners) or 'none is running'}")


def _document(present: Layout) -> dict[str, object]:
    return {"number": present.number, "groups": dict(present.groups), "order_scope": present.order_scope}
