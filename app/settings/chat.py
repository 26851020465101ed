"""Settings of ``hookwire chat``, the XMPP component."""

from __future__ import annotations

from pydantic import Field, SecretStr

from app.settings.part import SettingsPart, Texts
from runtime.loopback import at_loopback

__all__ = ["ChatSettings"]


class ChatSettings(SettingsPart):
    """The XMPP server's address for components, and the rights of addresses."""

    xmpp_component: str = Field(
        "", max_length=255, description="For hookwire chat: our domain at the XMPP server, events.example.org."
    )
    xmpp_component_secret: SecretStr | None = Field(None, description="Secret of the component at the XMPP server.")
    xmpp_component_server: str = Field(
        at_loopback(5347),
        description="Host and port of the XMPP server for components; on this machine, for XEP-0114 has no encryption.",
    )
    xmpp_readers: Texts = Field(
        (),
        description="Addresses that may subscribe, comma separated, each with a pattern of topics: "
        "ada@example.org=orders.#, or *@example.org=# for a whole domain.",
    )
    xmpp_publishers: Texts = Field(
        (), description="Addresses that may publish by a message to a topic, written as XMPP_READERS are."
    )
