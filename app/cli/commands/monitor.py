"""``hookwire monitor``: watch a topic from a chat client: events as lines for an XMPP address or in a room."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.commands.listen import Count, Filter, Subscription, Topic
from app.cli.entry import Config, Url, parsed, run, settings_from
from app.cli.failure import CommandFailed
from app.settings.settings import Settings

__all__ = ["monitor"]

To = Annotated[str | None, typer.Option("--to", help="XMPP address that gets the lines, such as ada@example.org.")]
Room = Annotated[
    str | None, typer.Option("--room", help="XMPP room that gets the lines, such as orders@rooms.example.org.")
]
Nick = Annotated[str, typer.Option("--nick", help="The sender's name in the room.")]
Template = Annotated[
    str | None,
    typer.Option("--template", help="How a line is written: {topic} {key} {id} {time} {content} {data.a.b}."),
]
PerMinute = Annotated[
    int,
    typer.Option(
        "--per-minute", min=1, max=6000, help="The largest number of lines per minute; further events share one line."
    ),
]


def monitor(
    topic: Topic = "#", to: To = None, room: Room = None, nick: Nick = "hookwire", template: Template = None,
    per_minute: PerMinute = 30, filter_: Filter = None, subscription: Subscription = None, count: Count = None,
    url: Url = None, config: Config = None,
) -> None:  # fmt: skip
    """Write a line for each event to an XMPP address or a room, until Ctrl-C.

    HOOKWIRE_XMPP_ACCOUNT and HOOKWIRE_XMPP_PASSWORD name the account; both may stand in the settings file. An event is
    acknowledged after the chat server has accepted its line, so outages of the hub or the chat server lose none. Events
    beyond --per-minute are counted in one line with their topics.

    Examples:

      hookwire monitor 'orders.#' --room orders@rooms.example.org

      hookwire monitor hookwire.operator --to ada@example.org --template '{data.type} {data.callback}'
    """
    from app.cli.hub_client import hub_url
    from webhooks.chat import TEMPLATE_MAX, TemplateRefused, check_template

    if (to is None) == (room is None):
        raise CommandFailed("give either --to ADDRESS or --room ADDRESS: the chat address that gets the lines", 2)
    if template is not None:
        if len(template) > TEMPLATE_MAX:
            raise CommandFailed(f"--template has more than {TEMPLATE_MAX} characters", 2)
        try:
            check_template(template)
        except TemplateRefused as error:
            raise CommandFailed(f"--template: {error}", 2) from None
    asked: dict[str, Any] = {"topic": topic}
    if filter_ is not None:
        asked["filter"] = parsed("--filter", filter_)
    settings = settings_from(config)
    run(_monitor(hub_url(url, settings), asked, subscription, settings, to, room, nick, template, per_minute, count))


async def _monitor(
    hub: str, asked: dict[str, Any], given: str | None, settings: Settings, to: str | None, room: str | None, nick: str,
    template: str | None, per_minute: int, count: int | None,
) -> int:  # fmt: skip
    from app.cli.monitor.monitoring import Monitoring, Pace
    from app.cli.monitor.options import xmpp_options
    from app.cli.pulling import Pulling

    options = xmpp_options(settings, to, room, nick)
    try:
        from app.cli.monitor.xmpp import Xmpp
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"the XMPP client is missing ({error.name}); install the extra: hookwire-server[chat]", 2
        ) from None
    async with Xmpp(options) as chat, Pulling(hub, asked, given) as pulling:
        await Monitoring(pulling, chat.say, template, Pace(per_minute)).run(count)
    return 0
