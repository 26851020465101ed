"""/keys: the keys that permit the use of this API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.audited import audited
from app.web.api.route.paging import Paged
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.topic import TopicError
from hub.keys import Keys, NewKey

__all__ = ["key_out", "router"]

router = strict_router("/keys", "keys")
KeyScope = Literal["publish", "subscribe", "read", "payloads", "operate", "enqueue", "work", "call", "admin"]
Patterns = Annotated[list[Annotated[str, Field(max_length=249)]], Field(min_length=1, max_length=50)]
_LIFETIME_MAX = 10 * 366 * 86_400


class KeyIn(BaseModel):
    """A new key."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "shop", "scopes": ["publish"], "topics": ["orders.#"]}]},
    )

    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$", description="For people.")
    scopes: list[KeyScope] = Field(min_length=1, max_length=9, description="`admin` holds every scope.")
    topics: Patterns | None = Field(None, description="Topics or patterns that it permits; null: every topic.")
    queues: Patterns | None = Field(
        None, description="Queues, like `topics`. A key that names only topics reaches no queue, kind or service."
    )
    kinds: Patterns | None = Field(None, description="Kinds of tasks and jobs, like `queues`.")
    services: Patterns | None = Field(None, description="Services, like `queues`.")
    lifetime_seconds: int | None = Field(
        None, ge=1, le=_LIFETIME_MAX, description="The lifetime of the key; null: until it is revoked."
    )


_EXAMPLE: dict[str, Any] = {
    "id": "key_3f1c0a9be2d4",
    "name": "shop",
    "scopes": ["publish"],
    "topics": ["orders.#"],
    "queues": None,
    "kinds": None,
    "services": None,
    "expires_at": None,
    "revoked_at": None,
    "created_at": "2026-01-15T09:30:00Z",
}


class KeyOut(BaseModel):
    """A key without its text."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str = Field(description="The hexadecimal digits of the id begin the key's text.")
    name: str
    scopes: list[KeyScope]
    topics: list[str] | None
    queues: list[str] | None
    kinds: list[str] | None
    services: list[str] | None
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


class KeyCreated(KeyOut):
    """A new key with its text, which is shown only now."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "key": f"hwk_3f1c0a9be2d4_{'0' * 40}"}]})

    key: str = Field(description="Send it as `Authorization: Bearer <key>`. Shown only here.")


class KeyPage(BaseModel):
    """A page of keys in order of creation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE], "next_cursor": None}]})

    items: list[KeyOut]
    next_cursor: str | None


def key_out(row: Row) -> dict[str, Any]:
    """Return the public shape of a row of ``key.list``."""
    return {name: value for name, value in row.items() if name != "public_id"} | {"id": row["public_id"]}


@router.post(
    "",
    status_code=201,
    summary="Create an API key",
    responses=refusals(*BODY, "invalid-pattern"),
)
@needs("admin")
async def create(request: Request, body: KeyIn, context: In) -> KeyCreated:
    """Returns the key, which is shown only now. Only its digest is stored."""
    try:
        new = NewKey(body.name, body.scopes, body.topics, body.lifetime_seconds, body.queues, body.kinds, body.services)
    except TopicError as error:
        raise Problem("invalid-pattern", str(error), parameter="topics") from None
    row, text = await Keys(context.database).create(new)
    await audited(request, context, "key.make", row["public_id"])
    return KeyCreated.model_validate({**key_out(row), "key": text})


@router.get("", summary="List API keys", responses=refusals("invalid-cursor", "invalid-parameter"))
@needs("read")
async def list_keys(context: In, paging: Paged) -> KeyPage:
    """Oldest first, including revoked and expired keys."""
    [after] = paging.after(0)
    rows = await Keys(context.database).list(after, paging.limit + 1)
    items = [key_out(row) for row in rows[: paging.limit]]
    return KeyPage.model_validate({"items": items, "next_cursor": paging.next_of(rows, "id")})


@router.delete("/{key_id}", status_code=204, summary="Revoke an API key", responses=refusals("not-found"))
@needs("admin")
async def revoke(request: Request, key_id: str, context: In) -> None:
    """Every process refuses it within five seconds. Repeating it changes nothing."""
    row = await Keys(context.database).revoke(key_id) if key_id.isascii() and key_id.isprintable() else None
    if row is None:
        raise Problem("not-found", "There is no such key.")
    await audited(request, context, "key.revoke", key_id)
