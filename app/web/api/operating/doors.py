"""/in/{source}: doors for webhooks that others send; their settings, secrets, last requests, and a signed example."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.audited import audited
from app.web.api.route.context import Context
from app.web.api.route.refusals import ACT, OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import NO_NUL, strict_router
from app.web.authentication import shows_payloads
from app.web.problem import Problem
from app.web.publishing.publish_problem import admit_topic
from app.web.scopes import needs
from db.pool import Row
from event.identity import format_event_id
from hub.inbound.door import DoorRefused, EventRefused, HandshakeAnswer, InboundSource
from hub.inbound.doors import DoorState
from hub.inbound.preset import PRESETS
from hub.inbound.scheme import SignatureWrong
from hub.publish import store_event

__all__ = ["router"]

router = strict_router("", "sources")
_READ = refusals("not-found", "invalid-parameter", "secret-unreadable")
Source = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["github"])]
_TEXT_MAX = 249
_BODY = refusals(*OPTIONAL_BODY, "outcome-unknown", "secret-unreadable")
_TEST = refusals(*ACT, "unknown-topic", "too-many-names", "secret-unreadable")
_SCHEME: dict[str, Any] = {
    "kind": "hmac", "header": "x-hub-signature-256", "separator": "", "prefix": "sha256=", "algorithm": "sha256",
    "encoding": "hex", "signed": "{body}", "id_header": None, "timestamp_header": None, "timestamp_item": None,
    "window_seconds": 300, "key_form": "text",
}  # fmt: skip
_KEY: dict[str, Any] = {"number": 1, "created_at": "2026-01-15T09:30:00Z", "expires_at": None}
_DOOR: dict[str, Any] = {
    "source": "github", "preset": "github", "url": "https://hub.example/in/github", "topic": "github.{type}",
    "id": ["header:x-github-delivery"], "type": ["header:x-github-event"], "key": "body:repository.full_name",
    "headers": ["x-github-event"], "scheme": _SCHEME, "remember_seconds": 259_200, "rate_per_minute": None,
    "secrets": [_KEY], "changed_at": "2026-01-15T09:30:00Z",
}  # fmt: skip
_REQUEST: dict[str, Any] = {
    "arrived_at": "2026-01-15T09:31:06Z", "address": "192.0.2.7", "bytes": 7841, "delivery_id": "72d3162e-cc78",
    "event_id": "evt_k3v7q2ha_42", "topic": "github.push", "reason": None, "detail": None, "body": None,
}  # fmt: skip
_REFUSED: dict[str, Any] = {
    **_REQUEST, "delivery_id": None, "event_id": None, "topic": None, "reason": "wrong_signature",
    "detail": "no signature in x-hub-signature-256 is of one of the secrets",
}  # fmt: skip
_TESTED: dict[str, Any] = {
    "source": "github", "headers": {"x-github-event": "push", "x-hub-signature-256": "sha256=7571..."},
    "body": '{"ref":"refs/heads/main"}', "topic": "github.push", "key": None, "delivery_id": "72d3162e-cc78",
    "event_headers": {"x-github-event": "push"}, "event_id": None,
}  # fmt: skip


class SchemeIn(BaseModel):
    """How the sender signs; parts that are left out are those of the preset."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"header": "x-acme-signature"}]})

    kind: Literal["hmac", "token"] | None = Field(None, description="token: the header holds the secret itself.")
    header: str | None = Field(None, max_length=100, description="The header of the signature, in lower case.")
    separator: Literal["", " ", ","] | None = Field(None, description="Between several signatures in the header.")
    prefix: str | None = Field(None, max_length=64, description="Text before each signature, such as `sha256=`.")
    algorithm: Literal["sha1", "sha256", "sha512"] | None = None
    encoding: Literal["hex", "base64"] | None = None
    signed: str | None = Field(
        None, max_length=200, description="What is signed, such as `{timestamp}.{body}`; also `{id}`."
    )
    id_header: str | None = Field(None, max_length=100, description="The header that `{id}` stands for.")
    timestamp_header: str | None = Field(None, max_length=100, description="The header of `{timestamp}`.")
    timestamp_item: str | None = Field(
        None, max_length=64, description="Text before the timestamp in the header of the signature, such as `t=`."
    )
    window_seconds: int | None = Field(
        None, ge=1, le=86_400, description="How far the timestamp may be from the hub's clock."
    )
    key_form: Literal["text", "base64"] | None = Field(None, description="base64: the key is behind `whsec_`.")


Reference = Annotated[str, Field(max_length=900)]
HeaderName = Annotated[str, Field(max_length=100)]


class DoorIn(BaseModel):
    """An inbound source. What is left out is that of the preset."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"preset": "github", "topic": "github.{type}"}]}
    )

    preset: str = Field(max_length=40, description=f"The sender: {', '.join(PRESETS)}.", examples=["github"])
    secret: str | None = Field(
        None, max_length=800, pattern=NO_NUL,
        description="The secret that you share with the sender. A new source without one gets one of the hub's, where "
        "the sender takes yours. Another secret than the present one replaces it after `overlap_seconds`.",
    )  # fmt: skip
    overlap_seconds: int = Field(
        86_400, ge=0, le=31_536_000, description="The time in which the former secret is also valid."
    )
    topic: str | None = Field(
        None, max_length=_TEXT_MAX, pattern=NO_NUL,
        description="The topic of its events, with `{type}` and `{source}`; by default `{source}.{type}`.",
    )  # fmt: skip
    id: list[Reference] | None = Field(
        None,
        max_length=4,
        description="Where the delivery id is: `header:NAME` or `body:MEMBER.MEMBER`. An empty list: none.",
    )
    type: list[Reference] | None = Field(
        None, max_length=4, description="Where the event type is. An empty list: none."
    )
    key: Reference | None = Field(None, description="Where the ordering key is; null: the events have no order.")
    headers: list[HeaderName] | None = Field(None, max_length=32, description="Headers that the event keeps.")
    scheme: SchemeIn | None = None
    remember_seconds: int | None = Field(
        None,
        ge=60,
        le=2_592_000,
        description="How long a delivery id is known, so that a repeat makes no second event.",
    )
    rate_per_minute: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Verified requests that each process takes in a minute; null: any number.",
    )


class SchemeOut(BaseModel):
    """How the sender signs."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SCHEME]})

    kind: Literal["hmac", "token"]
    header: str
    separator: str
    prefix: str
    algorithm: str
    encoding: str
    signed: str
    id_header: str | None
    timestamp_header: str | None
    timestamp_item: str | None
    window_seconds: int
    key_form: str


class DoorSecretOut(BaseModel):
    """A secret that is valid now; its text is not shown."""

    model_config = ConfigDict(json_schema_extra={"examples": [_KEY]})

    number: int
    created_at: datetime
    expires_at: datetime | None


class DoorOut(BaseModel):
    """An inbound source."""

    model_config = ConfigDict(json_schema_extra={"examples": [_DOOR]})

    source: str
    preset: str
    url: str = Field(description="The address that the sender gets.")
    topic: str
    id: list[str]
    type: list[str]
    key: str | None
    headers: list[str]
    scheme: SchemeOut
    remember_seconds: int
    rate_per_minute: int | None
    secrets: list[DoorSecretOut]
    changed_at: datetime


class DoorPut(DoorOut):
    """An inbound source, with a secret that was made for it. It is shown only now."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_DOOR, "secret": None}]})

    secret: str | None = Field(description="Null if you have given the secret, or if the source has one.")


class DoorRequest(BaseModel):
    """A request at a door."""

    model_config = ConfigDict(json_schema_extra={"examples": [_REQUEST, _REFUSED]})

    arrived_at: datetime
    address: str
    bytes: int
    delivery_id: str | None = Field(description="null before the signature was right, or if the sender has none.")
    event_id: str | None = Field(description="null for a refused request and for a handshake.")
    topic: str | None
    reason: str | None = Field(description="null for an accepted request.")
    detail: str | None = Field(
        description="Why it was refused; of an accepted request the headers that its event lacks, with the reasons."
    )
    body: str | None = Field(
        description="The first 4,096 bytes of a refused body as text, for a key with the scope `payloads`."
    )


class DoorDetail(DoorOut):
    """An inbound source with its last requests, newest first."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_DOOR, "accepted": [_REQUEST], "refused": [_REFUSED]}]}
    )

    accepted: list[DoorRequest]
    refused: list[DoorRequest]


class DoorTestIn(BaseModel):
    """Whether the example is stored."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"publish": False}]})

    publish: bool = Field(False, description="true: the example becomes an event, and subscribers get it.")


class DoorTested(BaseModel):
    """A signed example of this sender, and the event that it makes."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TESTED]})

    source: str
    headers: dict[str, str] = Field(
        description="The headers with which the sender would send it; a token, which is the secret itself, is `...`."
    )
    body: str
    topic: str
    key: str | None
    delivery_id: str | None
    event_headers: dict[str, str]
    event_id: str | None = Field(description="The event, if it was published.")


@router.put("/in/{source}", summary="Set an inbound source", responses=_BODY)
@needs("admin")
async def put_door(source: Source, body: DoorIn, request: Request, response: Response, context: In) -> DoorPut:
    """Makes a door for the webhooks of a sender, `POST /in/{source}`, or changes it. Changes count within three seconds
    in every process.
    """
    settings = body.model_dump(include={"topic", "id", "type", "key", "headers", "scheme"}, exclude_none=True)
    try:
        is_new, made = await context.doors.doors.put(
            source, body.preset, settings, body.secret, overlap_seconds=body.overlap_seconds,
            remember_seconds=body.remember_seconds, rate_per_minute=body.rate_per_minute,
        )  # fmt: skip
    except DoorRefused as refused:
        raise Problem("invalid-parameter", str(refused), parameter="body") from None
    context.doors.known.forget(source)
    await audited(request, context, "source.put", source)
    response.status_code = 201 if is_new else 200
    return DoorPut(**_out(await _state(source, context), context), secret=made)


@router.get("/in/{source}", summary="Show an inbound source", responses=_READ)
@needs("read")
async def show_door(source: Source, request: Request, context: In) -> DoorDetail:
    """Shows its settings, and its last requests with the reasons of refused ones."""
    state = await _state(source, context)
    bodies, latest = shows_payloads(request), context.doors.latest
    accepted = await latest.of(source, "accepted", with_bodies=bodies)
    refused = await latest.of(source, "refused", with_bodies=bodies)
    return DoorDetail(
        **_out(state, context),
        accepted=[_request(row, context) for row in accepted],
        refused=[_request(row, context) for row in refused],
    )


@router.delete(
    "/in/{source}", status_code=204, summary="Remove an inbound source",
    responses=refusals("not-found", "invalid-parameter", "outcome-unknown"),
)  # fmt: skip
@needs("admin")
async def remove_door(source: Source, request: Request, context: In) -> None:
    """Its events stay. Within three seconds its requests are refused, in every process."""
    if not await context.doors.doors.remove(source):
        raise _unknown()
    context.doors.known.forget(source)
    await audited(request, context, "source.remove", source)


@router.post("/in/{source}/test", summary="Try an inbound source", responses=_TEST)
@needs("operate")
async def test_door(
    source: Source, body: Annotated[DoorTestIn, Body(default_factory=DoorTestIn)], request: Request, context: In
) -> DoorTested:
    """Signs an example of this sender with the newest secret, and judges it as a request that comes from outside."""
    door = (await _state(source, context)).door
    secret = await context.doors.doors.newest_secret(source)
    if secret is None:
        raise Problem("invalid-parameter", "This source has no secret.", parameter="source")
    now = int(time.time())
    headers, content = door.signed_example(secret, now)
    given = {name: [value.encode()] for name, value in headers.items()}
    try:
        door.verify(given, content, now)
        taken = door.take(given, content)
    except (SignatureWrong, EventRefused) as error:
        raise Problem("invalid-parameter", f"The example was refused: {error}", parameter="source") from None
    assert not isinstance(taken, HandshakeAnswer), "an example is no handshake"
    event_id = None
    if body.publish:
        await admit_topic(context.topics, taken.draft.topic)
        async with context.database.transaction() as session:
            number = await store_event(session, "default", taken.draft)
        context.hub.on_publish()
        event_id = format_event_id(context.incarnation, number)
        await audited(request, context, "source.test", source)
    return DoorTested(
        source=source, headers=_shown(door, headers), body=content.decode(), topic=taken.draft.topic,
        key=taken.draft.key, delivery_id=taken.delivery_id, event_headers=dict(taken.draft.headers), event_id=event_id,
    )  # fmt: skip


def _shown(door: InboundSource, headers: dict[str, str]) -> dict[str, str]:
    """Return the example's headers; a token is the secret itself, and is left out."""
    return {**headers, door.scheme.header: "..."} if door.scheme.kind == "token" else headers


async def _state(source: str, context: Context) -> DoorState:
    state = await context.doors.doors.find(source)
    if state is None:
        raise _unknown()
    return state


def _unknown() -> Problem:
    return Problem("not-found", "There is no inbound source of this name.")


def _out(state: DoorState, context: Context) -> dict[str, Any]:
    door: InboundSource = state.door
    return {
        "source": door.name, "preset": door.preset, "url": f"{context.public_url}/in/{door.name}", "topic": door.topic,
        "id": list(door.ids), "type": list(door.types), "key": door.key, "headers": list(door.headers),
        "scheme": {name: getattr(door.scheme, name) for name in SchemeOut.model_fields},
        "remember_seconds": state.remember_seconds, "rate_per_minute": door.rate_per_minute,
        "secrets": [
            {"number": one.number, "created_at": one.created_at, "expires_at": one.expires_at} for one in state.secrets
        ],
        "changed_at": state.changed_at,
    }  # fmt: skip


def _request(row: Row, context: Context) -> DoorRequest:
    event, body = row["event_id"], row["body"]
    return DoorRequest(
        **{name: row[name] for name in ("arrived_at", "address", "bytes", "delivery_id", "topic", "reason", "detail")},
        event_id=None if event is None else format_event_id(context.incarnation, event),
        body=None if body is None else body.decode(errors="backslashreplace"),
    )
