"""Noun: what all nouns of the API do, once for each client: a request, its model, its pages."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

from hookwire.client.exchange import Answer, Request, Steps, exchange, json_of
from hookwire.model import Content, Model

__all__ = ["UNSET", "AsyncNoun", "AsyncRunner", "Listed", "Noun", "Place", "Runner", "new_key", "segment"]

M = TypeVar("M", bound=Model)
N = TypeVar("N", bound=Model)
T = TypeVar("T")
Listed = list


class _Unset:
    """The default of a parameter: it is left out of the request, where None is null."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = _Unset()


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where the hub is, with all that each request to it carries. ``base`` is its URL without a final slash."""

    base: str
    token: str | None
    timeout_seconds: float

    def headers(self) -> dict[str, str]:
        """Return the headers of each request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def __repr__(self) -> str:
        return f"Place({self.base!r})"


class Runner(Protocol):
    """Runs the steps of a call in this thread."""

    place: Place

    def run(self, steps: Steps[T]) -> T:
        """Return the result of the steps."""


class AsyncRunner(Protocol):
    """Runs the steps of a call in this task."""

    place: Place

    async def run(self, steps: Steps[T]) -> T:
        """Return the result of the steps."""


def segment(value: object) -> str:
    """Return a value as one segment of a path."""
    return quote(str(value), safe="")


def new_key() -> str:
    """Return a new idempotency key."""
    return secrets.token_hex(16)


def call(
    place: Place, method: str, path: str, what: str, *, query: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None, members: Mapping[str, Any] | None = None, body: bytes | None = None,
    content_type: str | None = None, idempotency_key: str | None = None, is_keyed: bool = False,
    timeout_seconds: float | None = None,
) -> Steps[tuple[Answer, Request]]:  # fmt: skip
    """Return the steps of one operation. ``is_keyed``: it takes an idempotency key, so it gets one."""
    given = _given(query)
    if given:
        path += "?" + urlencode([(name, _text(value)) for name, value in given.items()])
    sent = {**place.headers(), **{name: _text(value) for name, value in _given(headers).items()}}
    if members is not None:
        body = json.dumps(_given(members), ensure_ascii=False, allow_nan=False, default=_plain).encode()
        content_type = "application/json"
    if content_type:
        sent["Content-Type"] = content_type
    key = (idempotency_key or new_key()) if is_keyed else None
    if key is not None:
        sent["Idempotency-Key"] = key
    request = Request(method, path, what, sent, body, key)
    seconds = place.timeout_seconds if timeout_seconds is None else timeout_seconds
    answer = yield from exchange(request, seconds, place.base)
    return answer, request


def model_call(place: Place, method: str, path: str, what: str, kind: type[M], **options: Any) -> Steps[M]:
    """Return the steps of an operation that answers with one object."""
    answer, request = yield from call(place, method, path, what, **options)
    return kind.of(json_of(answer, request, place.base))


def either_call(
    place: Place, method: str, path: str, what: str, made: type[M], found: type[N], **options: Any
) -> Steps[M | N]:
    """Return the steps of an operation that answers with one object, of another kind if nothing was made (200)."""
    answer, request = yield from call(place, method, path, what, **options)
    kind: type[M] | type[N] = found if answer.status == 200 else made
    return kind.of(json_of(answer, request, place.base))


def items_call(place: Place, method: str, path: str, what: str, kind: type[M], **options: Any) -> Steps[list[M]]:
    """Return the steps of an operation that answers with a list."""
    answer, request = yield from call(place, method, path, what, **options)
    return [kind.of(item) for item in json_of(answer, request, place.base)["items"]]


def page_call(
    place: Place, method: str, path: str, what: str, kind: type[M], cursor: str | None, **options: Any
) -> Steps[tuple[list[M], str | None]]:
    """Return the steps of one page: its items, and the cursor of the next one."""
    if cursor is not None:
        options["query"] = {**(options.get("query") or {}), "cursor": cursor}
    answer, request = yield from call(place, method, path, what, **options)
    page = json_of(answer, request, place.base)
    return [kind.of(item) for item in page["items"]], page["next_cursor"]


def content_call(place: Place, method: str, path: str, what: str, **options: Any) -> Steps[Content]:
    """Return the steps of an operation that answers with content."""
    answer, _ = yield from call(place, method, path, what, **options)
    return Content(answer.status, answer.headers.get("content-type"), answer.content, answer.headers)


class Noun:
    """A noun of :class:`hookwire.Hookwire`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def _none(self, method: str, path: str, what: str, **options: Any) -> None:
        self._runner.run(call(self._runner.place, method, path, what, **options))

    def _model(self, method: str, path: str, what: str, kind: type[M], **options: Any) -> M:
        return self._runner.run(model_call(self._runner.place, method, path, what, kind, **options))

    def _either(self, method: str, path: str, what: str, made: type[M], found: type[N], **options: Any) -> M | N:
        return self._runner.run(either_call(self._runner.place, method, path, what, made, found, **options))

    def _items(self, method: str, path: str, what: str, kind: type[M], **options: Any) -> list[M]:
        return self._runner.run(items_call(self._runner.place, method, path, what, kind, **options))

    def _content(self, method: str, path: str, what: str, **options: Any) -> Content:
        return self._runner.run(content_call(self._runner.place, method, path, what, **options))

    def _pages(self, method: str, path: str, what: str, kind: type[M], **options: Any) -> Iterator[M]:
        cursor = None
        while True:
            items, cursor = self._runner.run(page_call(self._runner.place, method, path, what, kind, cursor, **options))
            yield from items
            if cursor is None:
                return


class AsyncNoun:
    """A noun of :class:`hookwire.AsyncHookwire`."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner

    async def _none(self, method: str, path: str, what: str, **options: Any) -> None:
        await self._runner.run(call(self._runner.place, method, path, what, **options))

    async def _model(self, method: str, path: str, what: str, kind: type[M], **options: Any) -> M:
        return await self._runner.run(model_call(self._runner.place, method, path, what, kind, **options))

    async def _either(self, method: str, path: str, what: str, made: type[M], found: type[N], **options: Any) -> M | N:
        return await self._runner.run(either_call(self._runner.place, method, path, what, made, found, **options))

    async def _items(self, method: str, path: str, what: str, kind: type[M], **options: Any) -> list[M]:
        return await self._runner.run(items_call(self._runner.place, method, path, what, kind, **options))

    async def _content(self, method: str, path: str, what: str, **options: Any) -> Content:
        return await self._runner.run(content_call(self._runner.place, method, path, what, **options))

    async def _pages(self, method: str, path: str, what: str, kind: type[M], **options: Any) -> AsyncIterator[M]:
        cursor = None
        while True:
            items, cursor = await self._runner.run(
                page_call(self._runner.place, method, path, what, kind, cursor, **options)
            )
            for item in items:
                yield item
            if cursor is None:
                return


def _given(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if value is not UNSET}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"JSON cannot express {type(value).__name__}")
