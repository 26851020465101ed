"""``hookwire chat``: topics as addresses of an XMPP server."""

from __future__ import annotations

from app.cli.entry import Config, Url, run, settings_from
from app.cli.failure import CommandFailed
from app.settings.settings import Settings

__all__ = ["chat"]


def chat(url: Url = None, config: Config = None) -> None:
    """Serve topics as XMPP addresses until Ctrl-C: subscribe to one in any chat client, or send it a message.

    The command is a component of the XMPP server (XEP-0114). HOOKWIRE_XMPP_COMPONENT is its domain there.
    HOOKWIRE_XMPP_READERS and HOOKWIRE_XMPP_PUBLISHERS name the addresses that may read and publish.
    HOOKWIRE_TOKEN is the hub's key.

    Example:

      HOOKWIRE_XMPP_COMPONENT=events.example.org HOOKWIRE_XMPP_READERS='*@example.org=#' hookwire chat
    """
    settings = settings_from(config)
    run(_chat(url, settings))


async def _chat(url: str | None, settings: Settings) -> int:
    from app.cli.chat.contacts import Contacts, chat_options
    from app.cli.hub_client import hub_url

    options = chat_options(settings)
    try:
        from app.cli.chat.component import ChatComponent
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"the XMPP client is missing ({error.name}); install the extra: hookwire-server[chat]", 2
        ) from None
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    try:
        contacts = Contacts(settings.data_dir / "chat.json")
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{settings.data_dir / 'chat.json'}: {error}", 2) from None
    await ChatComponent(options, hub_url(url, settings), contacts).run()
    return 0
