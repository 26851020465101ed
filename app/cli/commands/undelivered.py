"""``hookwire undelivered``: the accepted events that a receiver has not got, and why."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.entry import Config, Json, Url, run
from app.cli.lines.narrow import Narrow
from app.cli.listing import print_listed
from app.cli.moment import shown_moment

__all__ = ["undelivered"]

Subscription = Annotated[
    str | None, typer.Option("--subscription", help="Only events for this subscription (sub_...).")
]
Outcome = Annotated[str | None, typer.Option("--outcome", help="waiting (still owed) or dead (given up).")]
Since = Annotated[str | None, typer.Option("--since", help="2026-01-15T09:00Z, or 2h: that long ago.")]
Until = Annotated[str | None, typer.Option("--until", help="The end, in the same form as --since.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of events.")]
_HEADS: Final = ("Event", "For", "State", "Next", "Reason")
_NARROW: Final = Narrow(("Event", "State", "Next", "For"), ("Reason",), cuts=("For", "Reason"))


def undelivered(
    subscription: Subscription = None, outcome: Outcome = None, since: Since = None, until: Until = None,
    limit: Limit = 100, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """List accepted events that are not delivered, with the reason and the next attempt. Exit code 1: there is one.

    Examples:

      hookwire undelivered

      hookwire undelivered --outcome dead --json

      hookwire undelivered --since 1d --until 2h
    """
    from app.cli.moment import moment

    asked = {
        "subscription_id": subscription, "outcome": outcome, "since": moment("--since", since),
        "until": moment("--until", until),
    }  # fmt: skip
    run(
        print_listed(
            "/undelivered", asked, limit, url, config, _HEADS, _row, ("For", "Reason"),
            "nothing: every accepted event is delivered to each subscription that wants it", as_json=as_json,
            no_match="no such event is undelivered", narrow=_NARROW, fails=bool,
        )
    )  # fmt: skip


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    next_at = shown_moment(one["next_attempt_at"])
    return (
        one["event_id"],
        one["callback"] or "(fan-out)",
        one["state"],
        next_at,
        _beside(one["reason"], next_at),
    )


def _beside(reason: str, next_at: str) -> str:
    """Return a reason that does not repeat the time of the next attempt beside it."""
    return (
        reason.replace(f"is at {next_at}", "is next").replace(f"until {next_at}", "until then") if next_at else reason
    )
