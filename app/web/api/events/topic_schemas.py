"""/topics/{topic}/schema: the JSON Schema of a topic's events, by version; the lake makes columns of it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.audited import audited
from app.web.api.route.context import Context
from app.web.api.route.database_refusal import checked_topic
from app.web.api.route.paging import Paged
from app.web.api.route.precondition import IfMatch, etag, version_meant
from app.web.api.route.refusals import BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.problem import Problem
from app.web.scopes import needs
from db.pool import Row
from event.topic_schema import TopicSchemaError, columns_text, ignored_keywords

__all__ = ["router"]

router = strict_router("/topics", "topics")
_VERSION_MAX: Final = 2**31 - 1
_VERSIONS_MAX: Final = 1_000
_SCHEMA_EXAMPLE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"order": {"type": "integer"}, "placed_at": {"type": "string", "format": "date-time"}},
    "required": ["order"],
}
_VERSION_EXAMPLE: Final[dict[str, Any]] = {"version": 1, "made_at": "2026-01-15T09:30:00Z"}


class TopicSchema(BaseModel):
    """The schema of a topic's events."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"schema": _SCHEMA_EXAMPLE}]})

    schema_: dict[str, Any] = Field(alias="schema", description="A JSON Schema of the type `object`, up to 64 KiB.")


class TopicSchemaOut(TopicSchema):
    """A version of a topic's schema."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"topic": "orders.created", "schema": _SCHEMA_EXAMPLE, "ignored": [], **_VERSION_EXAMPLE}]
        },
    )

    topic: str
    version: int = Field(description="From 1; the newest one counts.")
    made_at: datetime
    ignored: list[str] = Field(description="Places of keywords that change no column; at most 50.")


class SchemaVersion(BaseModel):
    """A version in the list."""

    version: int
    made_at: datetime


class SchemaVersionPage(BaseModel):
    """A page of versions, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_VERSION_EXAMPLE], "next_cursor": None}]})

    items: list[SchemaVersion]
    next_cursor: str | None


async def _stored(context: Context, topic: str, version: int | None = None) -> Row | None:
    return await context.database.fetchrow("topic_schema.get", "default", topic, version)


def _ignored_in(row: Row) -> list[str]:
    """Return the remarks on a stored schema; none if it was stored under milder rules."""
    try:
        return ignored_keywords(json.loads(row["schema"]))
    except TopicSchemaError:
        return []


def _out(row: Row, ignored: list[str], response: Response) -> TopicSchemaOut:
    response.headers["ETag"] = etag(row["version"])
    return TopicSchemaOut.model_validate({**row, "schema": json.loads(row["schema"]), "ignored": ignored})


@router.get(
    "/{topic}/schema",
    summary="Get a topic's schema",
    responses=refusals("unknown-schema", "invalid-topic", "invalid-parameter"),
)
@needs("read", reach="topic")
async def get_schema(
    topic: str,
    response: Response,
    context: In,
    version: Annotated[int | None, Query(ge=1, le=_VERSION_MAX, description="By default the newest one.")] = None,
) -> TopicSchemaOut:
    """Shows the JSON Schema of which the lake makes columns. Its `ETag` names the version."""
    row = await _stored(context, checked_topic(topic), version)
    if row is None:
        raise Problem("unknown-schema", f"{topic} has no schema" + ("." if version is None else f" {version}."))
    return _out(row, _ignored_in(row), response)


@router.get(
    "/{topic}/schemas",
    summary="List the versions of a topic's schema",
    responses=refusals("invalid-topic", "invalid-cursor", "invalid-parameter"),
)
@needs("read", reach="topic")
async def list_schemas(topic: str, context: In, paging: Paged) -> SchemaVersionPage:
    """Newest first; `Link: rel="next"` and `next_cursor` lead to the next page."""
    [below] = paging.after(_VERSION_MAX)
    rows = await context.database.fetch("topic_schema.list", "default", checked_topic(topic), below, paging.limit + 1)
    return SchemaVersionPage.model_validate(paging.page(rows, "version"))


@router.put(
    "/{topic}/schema",
    summary="Set a topic's schema",
    responses=refusals(*BODY, "invalid-topic", "unknown-topic", "invalid-schema", "precondition-failed"),
)
@needs("admin", reach="topic")
async def put_schema(
    request: Request, topic: str, body: TopicSchema, response: Response, context: In, if_match: IfMatch = None
) -> TopicSchemaOut:
    """Stores the next version, up to 1,000. A schema with the columns and rules of the newest makes no new version.

    It refuses no event. It says which columns the lake makes of the topic's JSON.
    """
    name, meant = checked_topic(topic), version_meant(if_match)
    try:
        ignored = ignored_keywords(body.schema_)
    except TopicSchemaError as error:
        raise Problem("invalid-schema", str(error), parameter="schema") from None
    text = json.dumps(body.schema_, ensure_ascii=False)
    newest = await _stored(context, name)
    if newest is not None and meant in (None, newest["version"]):
        if columns_text(json.loads(newest["schema"])) == columns_text(body.schema_):
            return _out(newest, _ignored_in(newest), response)
        if newest["version"] >= _VERSIONS_MAX:
            raise Problem("invalid-schema", f"{name} has {_VERSIONS_MAX:,} versions already.", parameter="schema")
    row = await context.database.fetchrow("topic_schema.put", "default", name, text, meant)
    if row is None:
        if not await context.database.fetchrow("topic.get", "default", name):
            raise Problem("unknown-topic", f"There is no topic {name}.")
        raise Problem("precondition-failed")
    await audited(request, context, "topic.schema", f"{name} {row['version']}")
    return _out(row, ignored, response)
