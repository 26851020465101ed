"""Contacts: the XMPP addresses that have subscribed to each topic, and the permissions of addresses.

Each change writes a new file and renames it, so a crash leaves the old or the new contents. Addresses are bare, without
a resource. The XMPP server checks the sender's address of each stanza.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.settings.address import address_of
from app.settings.settings import Settings, SettingsRefused
from event.topic import TopicError, covers, validate_pattern

__all__ = ["ChatOptions", "Contacts", "Permission", "chat_options"]

_CONTACTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Permission:
    """The right of an address, or of all addresses of a domain (``*@domain``), to use the topics of a pattern."""

    address: str
    pattern: str

    def allows(self, address: str, topic: str) -> bool:
        """Return whether this bare address may use this topic or pattern."""
        domain = address.partition("@")[2]
        return self.address in (address, f"*@{domain}") and covers(self.pattern, topic)


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The component's domain, XMPP server and secret, and the permissions."""

    domain: str
    server: tuple[str, int]
    secret: str = field(repr=False)
    readers: Sequence[Permission] = ()
    publishers: Sequence[Permission] = ()
    answer_seconds: float = 15.0


def chat_options(settings: Settings) -> ChatOptions:
    """Return the options in the settings. Raise ``SettingsRefused``, whose message names the setting to change."""
    if not settings.xmpp_component or settings.xmpp_component_secret is None:
        raise SettingsRefused("set HOOKWIRE_XMPP_COMPONENT and HOOKWIRE_XMPP_COMPONENT_SECRET, as in the XMPP server")
    server = address_of(settings.xmpp_component_server)
    if server is None or server[0] not in ("127.0.0.1", "::1", "localhost") or not server[1]:
        raise SettingsRefused("HOOKWIRE_XMPP_COMPONENT_SERVER must be host:port on this machine: 127.0.0.1:5347")
    return ChatOptions(
        settings.xmpp_component.lower(),
        server,
        settings.xmpp_component_secret.get_secret_value(),
        [_permission("READERS", text) for text in settings.xmpp_readers],
        [_permission("PUBLISHERS", text) for text in settings.xmpp_publishers],
    )


def _permission(name: str, text: str) -> Permission:
    address, _, pattern = text.partition("=")
    try:
        if "@" not in address or "/" in address:
            raise TopicError("an address must be name@domain or *@domain")
        return Permission(address.lower(), validate_pattern(pattern))
    except TopicError as error:
        raise SettingsRefused(f"HOOKWIRE_XMPP_{name}: {text!a:.100}: {error}") from None


class Contacts:
    """The pull subscription and the contacts of each topic or pattern, stored in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._topics: dict[str, dict[str, Any]] = json.loads(path.read_bytes()) if path.exists() else {}

    @property
    def topics(self) -> Sequence[str]:
        """Return the topics that have contacts."""
        return list(self._topics)

    def of(self, topic: str) -> Sequence[str]:
        """Return the bare addresses that get a topic's events."""
        found: list[str] = self._topics.get(topic, {}).get("contacts", [])
        return list(found)

    def subscription(self, topic: str) -> str | None:
        """Return the id of the topic's pull subscription, or None."""
        found = self._topics.get(topic, {}).get("subscription")
        return str(found) if found else None

    def add(self, topic: str, address: str, subscription: str) -> None:
        """Store a contact of a topic. Raise ``OverflowError`` if 10,000 contacts are stored."""
        contacts = dict.fromkeys([*self.of(topic), address])
        if sum(len(self.of(one)) for one in self.topics) >= _CONTACTS_MAX:
            raise OverflowError
        self._topics[topic] = {"subscription": subscription, "contacts": list(contacts)}
        self._write()

    def renew(self, topic: str, subscription: str) -> None:
        """Replace the pull subscription of a topic, if it has contacts."""
        if topic in self._topics:
            self._topics[topic]["subscription"] = subscription
            self._write()

    def remove(self, topic: str, address: str) -> str | None:
        """Remove a contact. Return the topic's pull subscription if no contact is left, else None."""
        subscription = self.subscription(topic)
        left = [one for one in self.of(topic) if one != address]
        if left:
            self._topics[topic] = {"subscription": subscription, "contacts": left}
        else:
            self._topics.pop(topic, None)
        self._write()
        return None if left else subscription

    def _write(self) -> None:
        written = self._path.with_suffix(".new")
        with written.open("w", encoding="utf-8") as file:
            json.dump(self._topics, file)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._path)
