"""/queues/{queue}/archive: accepted messages of a queue that keeps history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.events.events import payload_out
from app.web.api.route.paging import Paged
from app.web.api.route.strict_route import strict_router
from app.web.api.work.queue_refusal import queue_name
from app.web.authentication import shows_payloads
from app.web.scopes import needs
from db.pool import Row

__all__ = ["router"]

router = strict_router("/queues", "queues", "invalid-parameter", "invalid-cursor")
Queue = Annotated[str, Path(description="1 to 200 characters of `A-Z a-z 0-9 . _ -` in dot-separated words.")]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LATEST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_ARCHIVED: dict[str, Any] = {
    "id": "msg_42", "created_at": "2026-01-15T09:31:07Z", "claimed_at": "2026-01-15T09:31:08Z",
    "accepted_at": "2026-01-15T09:31:09Z", "attempts": 1, "receiver": "10.0.0.7", "priority": 0, "type": None,
    "key": None, "content_type": "application/json", "payload": '{"order": 4711}', "payload_base64": None,
}  # fmt: skip


class ArchivedOut(BaseModel):
    """A message that was accepted."""

    id: str
    created_at: datetime
    claimed_at: datetime
    accepted_at: datetime
    attempts: int
    receiver: str | None = Field(description="The address, or the session of SQL, that received it.")
    priority: int
    type: str | None
    key: str | None
    content_type: str | None
    payload: str | None = Field(description="Null for a key without the scope `payloads`.")
    payload_base64: str | None


class ArchivedPage(BaseModel):
    """Accepted messages, the latest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_ARCHIVED], "next_cursor": None}]})

    items: list[ArchivedOut]
    next_cursor: str | None


@router.get("/{queue}/archive", summary="List accepted messages of a queue that keeps history",
            response_model=ArchivedPage)  # fmt: skip
@needs("read", reach="queue")
async def list_archive(request: Request, queue: Queue, context: In, paging: Paged) -> Response:
    """Latest first. The archive outlives its queue by the queue's `retention_days`."""
    microseconds, number = paging.after(_LATEST, 2**63 - 1)
    at = _EPOCH + min(microseconds, _LATEST) * _MICROSECOND
    asked, shown = ("message.archived", queue_name(queue), at, number, paging.limit + 1), shows_payloads(request)
    return await context.answers.page(
        paging, lambda room: context.database.fetch(*asked, room), _key, lambda row: _archived_out(row, shown=shown)
    )


def _key(row: Row) -> list[str | int]:
    return [(row["accepted_at"] - _EPOCH) // _MICROSECOND, row["id"]]


def _archived_out(row: Row, *, shown: bool) -> dict[str, Any]:
    text, encoded = payload_out(row["payload"]) if shown else (None, None)
    names = ("created_at", "claimed_at", "accepted_at", "receiver", "priority", "type", "key", "content_type")
    return {
        **{name: row[name] for name in names},
        "id": f"msg_{row['id']}", "attempts": row["deliveries"], "payload": text, "payload_base64": encoded,
    }  # fmt: skip
