"""``hookwire requests``: list requests to services, show their replies, close them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from app.cli.data import segment
from app.cli.entry import Config, Json, Url, run, say
from app.cli.listing import print_listed
from app.cli.moment import shown_moment

__all__ = ["requests"]

requests = typer.Typer(help="Requests to services: list, show the reply, close.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="The request's id.")]
Ids = Annotated[list[str], typer.Argument(help="The requests' ids.")]
OfService = Annotated[str | None, typer.Option("--service", help="Only requests to this service.")]
OfState = Annotated[
    str | None,
    typer.Option("--state", help="Only requests in this state: waiting, delayed, leased, answered, expired or failed."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number of requests to list.")]
Wait = Annotated[int, typer.Option("--wait", min=0, max=60, help="Seconds to wait for the reply.")]
_HEADS = ("Id", "Service", "State", "Via", "Tries", "Made", "Worker", "Last error")


@requests.command(name="list")
def list_all(
    service: OfService = None, state: OfState = None, limit: Limit = 100, url: Url = None, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """List requests, newest first, without their contents.

    Example:

      hookwire requests list --service echo --state failed
    """
    asked, nothing = {"service": service, "state": state}, "no request matches"
    run(print_listed("/requests", asked, limit, url, config, _HEADS, _row, ("Last error",), nothing, as_json=as_json))


@requests.command()
def show(request: Id, wait: Wait = 0, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Print the reply to a request; this can be repeated. Exit code 1: there is no reply.

    Example:

      hookwire requests show 6f1e0c7ab5f84e0d9c2b7a51d0e3f482 --wait 60
    """
    from app.cli.hub_client import hub_of
    from app.cli.service_reply import shown

    address = f"{hub_of(url, config)}/requests/{segment(request)}"
    run(shown(address, wait_seconds=wait, as_json=as_json))


@requests.command()
def close(request: Ids, url: Url = None, as_json: Json = False, config: Config = None) -> None:
    """Close requests: they are not executed any more, and their replies are deleted.

    Example:

      hookwire requests close 6f1e0c7ab5f84e0d9c2b7a51d0e3f482
    """
    run(_close(request, url, config, as_json=as_json))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    words = (one["id"], one["service"], one["state"], one["via"], str(one["attempts"]), shown_moment(one["created_at"]))
    return (*words, one["worker"] or "", one["last_error"] or "")


async def _close(ids: list[str], url: str | None, config: Any, *, as_json: bool) -> int:
    from app.cli.hub_client import ask, connected, hub_of

    hub = hub_of(url, config)
    async with connected() as client:
        for one in ids:
            await ask(client, "DELETE", f"{hub}/requests/{segment(one)}")
    say(json.dumps({"closed": ids}) if as_json else f"{len(ids)} closed")
    return 0
