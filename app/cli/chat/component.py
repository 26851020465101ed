"""Component: connects the hub to an XMPP server as a domain (XEP-0114); its addresses are topics and patterns.

::

    contact --subscribe--> orders.#@events.example.org   check readers --> pull subscription, "subscribed"
    contact <--a line for each event--- the address       acknowledged once the server has answered a ping sent after it
    contact --message--> orders.new@...                   check publishers --> POST, an error in the chat if not stored

No line is lost. A line is sent twice only if the connection broke between the line and the answer to its ping. Only
this module and ``app.cli.monitor.xmpp`` import slixmpp, which the optional extra ``chat`` installs.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any, Final

import httpx
from slixmpp import JID, ComponentXMPP
from slixmpp.exceptions import IqError, IqTimeout

from app.cli.chat.contacts import ChatOptions, Contacts
from app.cli.entry import tell
from app.cli.failure import CommandFailed
from app.cli.hub_client import caller
from app.cli.monitor.monitoring import event_of
from app.cli.pulling import Pulling
from event.topic import TopicError, is_reserved, validate_pattern, validate_topic
from runtime.cancellation import TaskGroup
from webhooks.chat import chat_line

__all__ = ["ChatComponent"]

_PAUSE_SECONDS: Final = (0.5, 30.0)
_LEASE_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
_FETCH_MAX: Final = 20
_LIFETIME_SECONDS: Final = 2_592_000
_STANZAS_MAX: Final = 1_000
_TEXT_BYTES_MAX: Final = 65_536


class _Refused(Exception):
    """The answer to a stanza is an error; ``condition`` is its name in RFC 6120, section 8.3.3."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


class ChatComponent:
    """The connection to the XMPP server. :meth:`run` opens it again after each loss."""

    def __init__(self, options: ChatOptions, hub: str, contacts: Contacts) -> None:
        logging.getLogger("slixmpp").setLevel(logging.CRITICAL)
        self._options = options
        self._hub = hub
        self._contacts = contacts
        made: Any = ComponentXMPP
        self._client = made(options.domain, options.secret, *options.server)
        self._client.register_plugin("xep_0199")
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()
        self._unreachable = ""
        self._stanzas: asyncio.Queue[Any] = asyncio.Queue(_STANZAS_MAX)
        self._deliveries: dict[str, asyncio.Task[None]] = {}
        for name, handler in (
            ("session_start", self._began), ("disconnected", self._ended), ("connection_failed", self._failed),
            ("presence_subscribe", self._arrived), ("presence_unsubscribe", self._arrived),
            ("presence_probe", self._arrived), ("message", self._arrived),
        ):  # fmt: skip
            self._client.add_event_handler(name, handler)

    async def run(self) -> None:
        """Serve until cancelled. Raise ``CommandFailed`` if the server refuses the component at the start."""
        await self._connect()
        if not self._ready.is_set():
            raise CommandFailed(self._refusal(), 3)
        tell(f"{self._options.domain} is connected to {self._place}")
        asking = httpx.AsyncClient(headers=caller(), trust_env=False, timeout=_ANSWER_SECONDS)
        async with asking as http, TaskGroup() as tasks:
            tasks.create_task(self._keep_connected())
            for topic in self._contacts.topics:
                self._begin(tasks, http, topic)
            while True:
                await self._answer(tasks, http, await self._stanzas.get())

    def _refusal(self) -> str:
        """Say why the component is not connected, and which setting to check."""
        if self._unreachable:
            return f"HOOKWIRE_XMPP_COMPONENT_SERVER: cannot reach {self._place}: {self._unreachable}"
        return (
            f"HOOKWIRE_XMPP_COMPONENT_SECRET: {self._place} does not accept the component {self._options.domain}; "
            "compare domain and secret with the server's configuration"
        )

    @property
    def _place(self) -> str:
        return f"{self._options.server[0]}:{self._options.server[1]}"

    # --- the connection ---

    async def _connect(self) -> None:
        """Connect. Return when the connection is ready or has failed, or after ``answer_seconds``."""
        self._lost.clear()
        self._unreachable = ""
        self._client.connect()
        waits = [asyncio.shield(self._event(event)) for event in (self._ready, self._lost)]
        try:
            await asyncio.wait(waits, timeout=self._options.answer_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not self._ready.is_set():
            self._client.cancel_connection_attempt()
            self._client.abort()

    @staticmethod
    async def _event(event: asyncio.Event) -> None:
        await event.wait()

    async def _keep_connected(self) -> None:
        pause, pause_max = _PAUSE_SECONDS
        while True:
            await self._lost.wait()
            tell(f"the connection to {self._place} was lost; trying again in {pause:g} s")
            await asyncio.sleep(pause)
            await self._connect()
            if self._ready.is_set():
                pause = _PAUSE_SECONDS[0]
            else:
                self._lost.set()
                pause = min(pause * 2, pause_max)

    def _began(self, _: object) -> None:
        self._ready.set()

    def _failed(self, error: object) -> None:
        self._unreachable = str(error) or type(error).__name__
        self._lost.set()

    def _ended(self, _: object) -> None:
        self._ready.clear()
        self._lost.set()

    def _arrived(self, stanza: Any) -> None:
        """Queue a stanza for :meth:`run`. Drop it without an answer if 1,000 stanzas wait."""
        if not self._stanzas.full():
            self._stanzas.put_nowait(stanza)

    # --- stanzas of contacts ---

    async def _answer(self, tasks: TaskGroup, http: httpx.AsyncClient, stanza: Any) -> None:
        address, topic = stanza["from"].bare, stanza["to"].node
        try:
            if stanza["type"] == "subscribe":
                await self._subscribe(tasks, http, address, topic)
            elif stanza["type"] == "unsubscribe":
                await self._unsubscribe(http, address, topic)
            elif stanza["type"] == "probe":
                self._presence(address, topic, "available" if address in self._contacts.of(topic) else "unsubscribed")
            elif stanza["type"] in ("chat", "normal") and stanza["body"]:
                await self._publish(http, address, topic, stanza)
        except _Refused as refused:
            self._refuse(stanza, refused)
        except (httpx.HTTPError, OSError) as error:
            self._refuse(stanza, _Refused("service-unavailable", f"the hub does not answer: {error}"[:200]))

    async def _subscribe(self, tasks: TaskGroup, http: httpx.AsyncClient, address: str, topic: str) -> None:
        pattern = await self._pattern(http, _checked(validate_pattern, topic))
        if not any(one.allows(address, pattern or topic) for one in self._options.readers):
            raise _Refused("forbidden", f"{address} may not read {topic} (see HOOKWIRE_XMPP_READERS)")
        if pattern is None:
            raise _unknown(topic)
        subscription = self._contacts.subscription(topic)
        if subscription is None:
            subscription = await self._make(http, pattern)
        try:
            self._contacts.add(topic, address, subscription)
        except OverflowError:
            raise _Refused("resource-constraint", "there are too many contacts; remove some") from None
        self._begin(tasks, http, topic)
        self._presence(address, topic, "subscribed")
        self._presence(address, topic, "available")

    async def _unsubscribe(self, http: httpx.AsyncClient, address: str, topic: str) -> None:
        ended = self._contacts.remove(topic, address)
        self._presence(address, topic, "unsubscribed")
        if ended is not None:
            if (delivering := self._deliveries.pop(topic, None)) is not None:
                delivering.cancel()
            await http.delete(f"{self._hub}/subscriptions/{ended}")

    async def _publish(self, http: httpx.AsyncClient, address: str, topic: str, message: Any) -> None:
        name, body = _checked(validate_topic, topic), str(message["body"]).encode()
        pattern = await self._pattern(http, name)
        is_exchange = pattern is not None and pattern != name
        reached = str(pattern).removesuffix(".#") if is_exchange else name
        if (is_reserved(name) and not is_exchange) or not any(
            one.allows(address, reached) for one in self._options.publishers
        ):
            raise _Refused("forbidden", f"{address} may not publish to {topic} (see HOOKWIRE_XMPP_PUBLISHERS)")
        if len(body) > _TEXT_BYTES_MAX:
            raise _Refused("policy-violation", f"a message has at most {_TEXT_BYTES_MAX} bytes")
        headers = {"Content-Type": "text/plain; charset=utf-8", "Hookwire-Header-xmpp-from": address}
        if message["id"]:  # A server that repeats a message after a lost connection repeats its id too.
            identity = hashlib.sha256(f"{message['from']}\0{message['id']}".encode()).hexdigest()
            headers["Idempotency-Key"] = f"xmpp-{identity}"
        path = f"rabbithub/endpoint/x/{name}?hub.topic=" if is_exchange else f"topics/{name}/events"
        answer = await http.post(f"{self._hub}/{path}", content=body, headers=headers)
        if not answer.is_success:
            condition = "wait" if answer.is_server_error else "not-acceptable"
            raise _Refused("service-unavailable" if condition == "wait" else condition, answer.text[:200])

    async def _pattern(self, http: httpx.AsyncClient, name: str) -> str | None:
        """Return what a contact's name stands for: a topic or pattern of this name, or all topics of the exchange.

        None: the hub knows neither. A name counts as a topic if the API key may not ask.
        """
        if "*" in name or "#" in name or is_reserved(name):
            return name
        if (await http.get(f"{self._hub}/topics/{name}/settings")).status_code != 404:
            return name
        asked = {"Accept": "application/json"}
        answer = await http.get(f"{self._hub}/rabbithub/endpoint/x/{name}", headers=asked)
        if answer.is_success:
            return str(answer.json()["topic"])
        return None if answer.status_code == 404 else name

    def _presence(self, address: str, topic: str, kind: str, reason: str | None = None) -> None:
        sender, shown = f"{topic}@{self._options.domain}", None if kind == "available" else kind
        self._client.send_presence(pto=JID(address), pfrom=JID(sender), ptype=shown, pstatus=reason)

    def _refuse(self, stanza: Any, refused: _Refused) -> None:
        if stanza["type"] == "subscribe":
            self._presence(stanza["from"].bare, stanza["to"].node, "unsubscribed", str(refused))
        if stanza.name == "message":
            answer = stanza.reply(clear=False)
            answer["type"] = "error"
            answer["error"]["type"] = "cancel"
            answer["error"]["condition"] = refused.condition
            answer["error"]["text"] = str(refused)
            answer.send()
        tell(f"{stanza['from'].bare} to {stanza['to'].bare}: {refused}")

    # --- lines for contacts ---

    def _begin(self, tasks: TaskGroup, http: httpx.AsyncClient, topic: str) -> None:
        if topic not in self._deliveries:
            self._deliveries[topic] = tasks.create_task(self._deliver(http, topic))

    async def _make(self, http: httpx.AsyncClient, pattern: str) -> str:
        """Create a pull subscription that ends after 30 days without a fetch. Return its id. Raise ``_Refused``."""
        asked = {"topic": pattern, "ordered": True, "lifetime_seconds": _LIFETIME_SECONDS}
        answer = await http.post(f"{self._hub}/subscriptions/pull", json=asked)
        if not answer.is_success:
            raise _Refused("not-acceptable", f"the hub answered {answer.status_code}")
        return str(answer.json()["id"])

    async def _deliver(self, http: httpx.AsyncClient, topic: str) -> None:
        """Send each event of a topic to its contacts. Create a new subscription if the old one has ended."""
        while True:
            given = self._contacts.subscription(topic)
            assert given is not None, "a topic with contacts has a subscription"
            try:
                await self._drain(topic, given)
            except CommandFailed as failed:
                tell(f"{topic}: {failed}; subscribing again")
            await asyncio.sleep(_PAUSE_SECONDS[0])
            try:
                if (pattern := await self._pattern(http, topic)) is None:
                    raise _unknown(topic)
                self._contacts.renew(topic, await self._make(http, pattern))
            except (_Refused, httpx.HTTPError) as error:
                tell(f"{topic}: {error}; trying again in {_PAUSE_SECONDS[1]:g} s")
                await asyncio.sleep(_PAUSE_SECONDS[1])

    async def _drain(self, topic: str, given: str) -> None:
        async with Pulling(self._hub, {"topic": topic}, given) as pulling:
            while True:
                for one in await pulling.fetch(_FETCH_MAX, lease_seconds=_LEASE_SECONDS):
                    if await self._hand_over(topic, chat_line("xmpp", None, event_of(one["event"]))):
                        await pulling.ack([one["receipt"]])

    async def _hand_over(self, topic: str, line: str) -> bool:
        """Send a line to all contacts. Return whether the server answered a ping after it."""
        await self._ready.wait()
        sender = JID(f"{topic}@{self._options.domain}")
        contacts = self._contacts.of(topic)
        for address in contacts:
            self._client.send_message(mto=JID(address), mbody=line, mfrom=sender, mtype="chat")
        for domain in sorted({address.partition("@")[2] for address in contacts}):
            ping = self._client.plugin["xep_0199"].send_ping(
                JID(domain), ifrom=JID(self._options.domain), timeout=self._options.answer_seconds
            )
            try:
                await ping
            except IqTimeout:
                return False
            except IqError as error:  # An error is an answer too: some servers do not support pings.
                tell(f"{domain} answers a ping with an error: {error.condition}")
        return self._ready.is_set()


def _checked(check: Any, topic: str) -> str:
    try:
        return str(check(topic))
    except TopicError as error:
        raise _Refused("jid-malformed", str(error)) from None


def _unknown(name: str) -> _Refused:
    return _Refused(
        "item-not-found",
        f"the hub has no topic and no exchange {name}; publish to it once, or PUT /topics/{name}/settings",
    )
