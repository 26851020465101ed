"""A browser without scripts for the console: it keeps cookies, names its origin, and sends the forms of a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx

from tests.app.conftest import RunningHub
from tests.app.web.test_authentication import bearer


@dataclass
class Form:
    """A form: where it goes, and the fields that it has already."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Page(HTMLParser):
    """What a page has: words, tags with their attributes, links to other pages, forms."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.links: list[str] = []
        self.forms: list[Form] = []
        self._hidden = 0
        self._select = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += named
        self._hidden += tag in ("style", "script")
        if tag == "a":
            self.links += [named["href"]] if "#" not in named["href"] else []
        if tag == "form":
            self.forms.append(Form(named["action"], named.get("method", "get")))
        if tag == "input" and "value" in named and named.get("type") != "checkbox":
            self.forms[-1].fields[named["name"]] = named["value"]

        if tag == "select":
            self._select = named["name"]
        if tag == "option" and "selected" in named:
            self.forms[-1].fields[self._select] = named["value"]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(self.words)


class Table(HTMLParser):
    """The rows of a page: ``rows`` has the words of each cell by its head, ``facts`` the words beside each name, and
    ``tiles`` the number of each tile by its words.
    """

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = []
        self.facts: dict[str, str] = {}
        self.tiles: dict[str, str] = {}
        self._name = ""
        self._number = ""
        self._is_fact = False
        self._words: list[str] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append({})
        if tag in ("td", "th", "b", "span"):
            self._words = [] if tag != "span" or self._number else self._words
        if tag == "td":
            head = dict(attrs).get("data-head")
            self._name, self._is_fact = head or self._name, head is None

    def handle_endtag(self, tag: str) -> None:
        words = " ".join(self._words)
        if tag == "th":
            self._name = words
        elif tag == "td":
            self.rows[-1][self._name] = words
            if self._is_fact:
                self.facts[self._name] = words
        elif tag == "b":
            self._number = words
        elif tag == "span" and self._number:
            self.tiles[words.partition(",")[0]], self._number = self._number, ""

    def handle_data(self, data: str) -> None:
        if data.strip():
            self._words.append(data.strip())


class Browser:
    """Opens pages of one hub, follows redirects, sends forms."""

    def __init__(self, hub: RunningHub, client: httpx.AsyncClient) -> None:
        self.url = hub.url
        self.client = client
        self.at = httpx.URL(hub.url + "/console")

    async def open(self, address: str) -> httpx.Response:
        """The answer to a GET of an address that is relative to the console."""
        answer = await self.client.get(httpx.URL(self.url + "/console/").join(address))
        self.at = answer.url
        return answer

    async def page(self, address: str) -> Page:
        """The page at this address."""
        return Page((await self.open(address)).text)

    async def send(self, address: str, **fields: str) -> httpx.Response:
        """The answer to the form of the page at this address that goes to the same address, filled in."""
        return await self.send_form(await self.page(address), address, **fields)

    async def send_form(self, page: Page, address: str, **fields: str) -> httpx.Response:
        """The answer to the form of this page that goes to this address."""
        form = next(one for one in page.forms if one.method == "post" and one.action == address.partition("?")[0])
        target = httpx.URL(self.url + "/console/").join(form.action)
        return await self.client.post(target, data={**form.fields, **fields})


@asynccontextmanager
async def browsing(
    hub: RunningHub, *scopes: Any, topics: list[str] | None = None, name: str = "test"
) -> AsyncIterator[Browser]:
    """A browser that has signed in with a new key of these scopes; without scopes it has no key."""
    headers = {"Accept": "text/html", "Origin": hub.url}
    async with httpx.AsyncClient(headers=headers, follow_redirects=True, timeout=60, trust_env=False) as client:
        browser = Browser(hub, client)
        if scopes:
            answer = await browser.send("sign-in", key=await bearer(hub, *scopes, topics=topics, name=name))
            assert answer.url == browser.url + "/console", answer.text
        yield browser
