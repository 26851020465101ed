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
