"""XMPP options: sender, receiver and connection. Each error names its setting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal

from app.settings.settings import Settings, SettingsRefused
from relay.tls import TlsFiles

__all__ = ["XmppOptions", "xmpp_options"]

_ADDRESS = re.compile(r"[^\s@/\"&'<>:]{1,500}@[^\s@/]{1,500}")
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/@]+)(?::([0-9]{1,5}))?")
_PORTS = {"starttls": 5222, "direct": 5223, "none": 5222}


@dataclass(frozen=True, slots=True)
class XmppOptions:
    """The connection: ``account`` writes to ``peer``, which is a room if we have a ``nick``. ``server``: None asks
    DNS.
    """

    account: str
    password: str = field(repr=False)
    peer: str
    nick: str | None = None
    server: tuple[str, int] | None = None
    tls: Literal["starttls", "direct", "none"] = "starttls"
    files: TlsFiles = field(default_factory=lambda: TlsFiles("HOOKWIRE_XMPP_TLS"))
    answer_seconds: float = 15.0

    @property
    def place(self) -> str:
        """Return the server's address for messages."""
        return f"{self.server[0]}:{self.server[1]}" if self.server else self.account.partition("@")[2]


def xmpp_options(settings: Settings, to: str | None, room: str | None, nick: str) -> XmppOptions:
    """Return the options in the settings and the command's options. Raises :class:`SettingsRefused`, which names the
    setting to change.
    """
    if not settings.xmpp_account or settings.xmpp_password is None:
        raise SettingsRefused("HOOKWIRE_XMPP_ACCOUNT and HOOKWIRE_XMPP_PASSWORD name the XMPP account that writes")
    peer = to or room or ""
    for name, address in (("HOOKWIRE_XMPP_ACCOUNT", settings.xmpp_account), ("--room" if room else "--to", peer)):
        if not _ADDRESS.fullmatch(address):
            raise SettingsRefused(f"{name} is an XMPP address such as name@example.org, not {address!a:.100}")
    if room is not None and not nick.strip():
        raise SettingsRefused("--nick is our name in the room, and must not be empty")
    server = _server(settings)
    if settings.xmpp_tls == "none" and (server is None or not _is_here(server[0])):
        raise SettingsRefused("HOOKWIRE_XMPP_TLS is none, which is for a HOOKWIRE_XMPP_SERVER on this machine only")
    files = TlsFiles("HOOKWIRE_XMPP_TLS", settings.xmpp_tls_ca)
    try:
        files.context()
    except ValueError as error:
        raise SettingsRefused(str(error)) from None
    return XmppOptions(
        settings.xmpp_account, settings.xmpp_password.get_secret_value(), peer, nick if room else None,
        server, settings.xmpp_tls, files,
    )  # fmt: skip


def _server(settings: Settings) -> tuple[str, int] | None:
    if not settings.xmpp_server:
        return None
    found = _SERVER.fullmatch(settings.xmpp_server)
    port = int(found[2] or _PORTS[settings.xmpp_tls]) if found else 0
    if found is None or not 0 < port < 2**16:
        raise SettingsRefused("HOOKWIRE_XMPP_SERVER is host or host:port, such as xmpp.example.org:5222")
    return found[1].strip("[]"), port


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
