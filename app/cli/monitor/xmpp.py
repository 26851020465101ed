"""XMPP: deliver lines of text to an address or a room, without losing one (RFC 6120, RFC 6121, XEP-0045).

::

    open --TLS, password, room--> ready --line--> handed over --> ready ...
      ^                             |
      '------- pause, doubled ------'  any loss: connection, answer, place in the room

A line to a room is delivered when the room has sent it back to us, as to all its members. A line to an address is
delivered when the server has answered a ping after it (XEP-0199), because it processes a client's stanzas in order.
Other lines are sent again after a lost connection, so that a line may come twice and none is lost.

slixmpp, the optional extra ``chat``, is imported here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import Any, Final
from xml.etree import ElementTree

from slixmpp import JID, ClientXMPP
from slixmpp.exceptions import IqError, IqTimeout, PresenceError
from slixmpp.stanza import StreamFeatures
from typing_extensions import override

from app.cli.entry import tell
from app.cli.failure import CommandFailed
from app.cli.monitor.options import XmppOptions

__all__ = ["Xmpp"]

_PAUSE_SECONDS: Final = (0.5, 30.0)
_CLOSE_SECONDS: Final = 2.0
_REFUSED: Final = 2
_UNREACHABLE: Final = 3
_ROOM_MADE: Final = 201
_CURES: Final = {
    "conflict": "another member has that name there: --nick",
    "forbidden": "the account is banned from it",
    "registration-required": "it is for members, and the account is not a member",
    "not-authorized": "it needs a password, which hookwire does not have",
    "not-allowed": "it does not exist, and the account must not make it",
    "item-not-found": "it does not exist, or is not open yet",
    "service-unavailable": "it is full, or there is no such service",
    "remote-server-not-found": "there is no such server",
}


class XmppLost(Exception):
    """There is no connection or no answer. A command that has just started ends with ``exit_code``."""

    def __init__(self, text: str, exit_code: int = _UNREACHABLE) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Xmpp:
    """The connection of one account, for as long as the context is open.

    Entering it connects, and raises ``CommandFailed`` when that fails. Afterwards a lost connection is made again.
    """

    def __init__(self, options: XmppOptions) -> None:
        # The library reports failures by its events. Its log lines would only repeat them.
        logging.getLogger("slixmpp").setLevel(logging.CRITICAL)
        self._options = options
        self._client = _Client(options)
        self._is_ready = False
        self._opening: asyncio.Future[None] | None = None
        self._answer: asyncio.Future[None] | None = None
        self._line = ("", "")
        for event, handler in (
            ("session_start", self._session_began), ("disconnected", self._disconnected),
            ("connection_failed", self._connection_failed), ("ssl_invalid_chain", self._connection_failed),
            ("failed_all_auth", self._password_refused), ("no_tls", self._no_tls), ("stream_error", self._stream_error),
            ("groupchat_message", self._heard), ("message_error", self._line_refused),
            ("presence_error", self._room_refused),
        ):  # fmt: skip
            self._client.add_event_handler(event, handler)

    async def __aenter__(self) -> Xmpp:
        try:
            await self._open()
        except XmppLost as lost:
            await self._close()
            raise CommandFailed(str(lost), lost.exit_code) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_ready:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._client.disconnect(wait=_CLOSE_SECONDS)
        await self._close()

    async def say(self, text: str) -> None:
        """Deliver a line; connect again as often as needed."""
        pause, pause_max = _PAUSE_SECONDS
        while True:
            try:
                if not self._is_ready:
                    await self._open()
                await self._hand_over(text)
            except XmppLost as lost:
                tell(f"{lost}; trying again in {pause:g} s")
                await self._close()
                await asyncio.sleep(pause)
                pause = min(pause * 2, pause_max)
            else:
                return

    # --- a connection ---

    async def _open(self) -> None:
        options = self._options
        self._opening = asyncio.get_running_loop().create_future()
        self._client.connect(*(options.server or (None, None)))
        try:
            async with asyncio.timeout(options.answer_seconds):
                await self._opening
                if options.nick is not None:
                    await self._join(options.nick)
        except TimeoutError:
            raise XmppLost(
                f"HOOKWIRE_XMPP_SERVER: {options.place} did not complete the login within {options.answer_seconds:g} s"
            ) from None
        finally:
            self._opening.cancel()
        self._is_ready = True

    async def _join(self, nick: str) -> None:
        room = JID(self._options.peer)
        try:
            presence, *_ = await self._client.plugin["xep_0045"].join_muc_wait(
                room, nick, maxstanzas=0, timeout=self._options.answer_seconds
            )
            if _ROOM_MADE in presence["muc"]["status_codes"]:
                tell(f"{room} did not exist; it was made")
                await self._unlock(room)
        except PresenceError as error:
            condition = error.condition
            why = _CURES.get(condition, error.text or "")
            raise XmppLost(f"--room: {room} is refused, {condition}: {why}", _REFUSED) from None
        except (IqError, IqTimeout):
            raise XmppLost(f"--room: {room} is new, and could not be opened to others", _REFUSED) from None

    async def _unlock(self, room: JID) -> None:
        """Accept the settings of a new room, which is closed to others before that (XEP-0045, 10.1.2)."""
        settings = ElementTree.Element("{jabber:x:data}x", {"type": "submit"})
        request = ElementTree.Element("{http://jabber.org/protocol/muc#owner}query")
        request.append(settings)
        made: Any = self._client.make_iq_set(sub=request, ito=room)
        await made.send(timeout=self._options.answer_seconds)

    async def _close(self) -> None:
        """Close silently: late messages of the old connection must not count for the next one."""
        self._is_ready = False
        client = self._client
        client.cancel_connection_attempt()
        if client.transport is not None:
            gone = client.disconnected
            client.abort()
            await asyncio.wait([gone], timeout=_CLOSE_SECONDS)

    # --- a line ---

    async def _hand_over(self, text: str) -> None:
        options, client = self._options, self._client
        message = client.make_message(
            mto=JID(options.peer), mbody=text, mtype="chat" if options.nick is None else "groupchat"
        )
        self._line = message["id"], text
        answer = self._answer = asyncio.get_running_loop().create_future()
        message.send()
        if options.nick is None:
            pong = client.plugin["xep_0199"].send_ping(JID(client.boundjid.domain), timeout=options.answer_seconds)
            pong.add_done_callback(self._ponged)
        try:
            async with asyncio.timeout(options.answer_seconds):
                await answer
        except TimeoutError:
            raise XmppLost(f"{options.peer}: no answer within {options.answer_seconds:g} s") from None
        finally:
            answer.cancel()

    def _ponged(self, pong: asyncio.Future[Any]) -> None:
        """Take a ping's answer; an error counts too, because not every server knows the ping."""
        error = None if pong.cancelled() else pong.exception()
        if not isinstance(error, IqTimeout):
            _settle(self._answer, None)

    # --- events of the library ---

    def _room_refused(self, presence: Any) -> None:
        """Report a refusal to the waiting join, even if the answer does not name the room."""
        self._client.event(f"muc::{presence['from'].bare}::presence-error", presence)

    def _session_began(self, _: object) -> None:
        self._client.send_presence()
        _settle(self._opening, None)

    def _heard(self, message: Any) -> None:
        """Recognise our own line when the room sends it back: by its id, or by its text if the service changes ids."""
        identity, text = self._line
        ours = message["from"] == JID(f"{self._options.peer}/{self._options.nick}")
        if message["id"] == identity or (ours and message["body"] == text):
            _settle(self._answer, None)

    def _line_refused(self, message: Any) -> None:
        condition, words = message["error"]["condition"], message["error"]["text"]
        whose = "--to" if self._options.nick is None else "--room"
        lost = XmppLost(f"{whose}: {self._options.peer} refuses the line: {condition} {words}".rstrip(), _REFUSED)
        if message["id"] == self._line[0] and self._answer is not None and not self._answer.done():
            _settle(self._answer, lost)
        else:
            tell(str(lost))

    def _disconnected(self, reason: object) -> None:
        self._is_ready = False
        if isinstance(reason, ssl.SSLError):
            self._connection_failed(reason)
        self._fail(XmppLost(f"the connection to {self._options.place} was lost"))

    def _connection_failed(self, error: object) -> None:
        place, files = self._options.place, self._options.files
        if isinstance(error, ssl.SSLError) and (blame := files.blame(error)):
            self._fail(XmppLost(f"HOOKWIRE_XMPP_SERVER, HOOKWIRE_XMPP_TLS: {place}: {blame}", _REFUSED))
        else:
            self._fail(XmppLost(f"HOOKWIRE_XMPP_SERVER: cannot reach {place}: {error or type(error).__name__}"))

    def _password_refused(self, _: object) -> None:
        account = self._options.account
        self._fail(XmppLost(f"HOOKWIRE_XMPP_PASSWORD: {self._options.place} refuses it for {account}", _REFUSED))

    def _no_tls(self, _: object) -> None:
        text = f"HOOKWIRE_XMPP_TLS: {self._options.place} offers no STARTTLS, and nothing is sent without it"
        self._fail(XmppLost(text, _REFUSED))

    def _stream_error(self, error: Any) -> None:
        condition, account = error["condition"], self._options.account
        about = "HOOKWIRE_XMPP_ACCOUNT: " if condition == "host-unknown" else ""
        words = f"{about}{self._options.place} ended the connection of {account}: {condition} {error['text']}"
        self._fail(XmppLost(words.rstrip(), _REFUSED if about else _UNREACHABLE))

    def _fail(self, lost: XmppLost) -> None:
        _settle(self._opening, lost)
        _settle(self._answer, lost)


class _Client(ClientXMPP):
    """The library's client. It sends nothing on a connection that should be encrypted but is not."""

    def __init__(self, options: XmppOptions) -> None:
        super().__init__(options.account, options.password)
        self._options = options
        self._context = options.files.context()
        self.enable_starttls = options.tls == "starttls"
        self.enable_direct_tls = options.tls == "direct"
        self.enable_plaintext = options.tls == "none"
        for plugin in ("xep_0045", "xep_0199"):
            self.register_plugin(plugin)

    @override
    def get_ssl_context(self) -> ssl.SSLContext:
        """Return our own context: it trusts only the authorities of the settings."""
        return self._context

    @override
    async def _handle_stream_features(self, features: StreamFeatures) -> bool | None:
        encrypted = self.transport is not None and self.transport.get_extra_info("ssl_object") is not None
        if self._options.tls == "starttls" and not encrypted and "starttls" not in features["features"]:
            self.event("no_tls")
            self.abort()
            return True
        return await super()._handle_stream_features(features)


def _settle(waiting: asyncio.Future[None] | None, lost: XmppLost | None) -> None:
    if waiting is None or waiting.done():
        return
    if lost is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(lost)
