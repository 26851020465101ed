"""/subscriptions/{id}/keys: the keys that sign its deliveries, rotated without a gap."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.web.api.dependency import In
from app.web.api.route.audited import audited
from app.web.api.route.known_subscription import find, no_such_subscription
from app.web.api.route.refusals import OPTIONAL_BODY, refusals
from app.web.api.route.strict_route import strict_router
from app.web.api.subscribing.subscriptions import find_to_change
from app.web.problem import Problem
from app.web.scopes import needs
from hub.signing_keys import KeyInfo, KeysRefused

__all__ = ["router"]

router = strict_router("/subscriptions/{subscription_id}/keys", "subscriptions", "not-found")
_OVERLAP_SECONDS = 86_400
_EXAMPLE: dict[str, Any] = {
    "number": 2,
    "type": "ed25519",
    "public_key": "whpk_ebVWLo/mVPlAeLES6KmLp5AfhTrmlb7X4OORC60ElmQ=",
    "created_at": "2026-01-15T09:30:00Z",
    "expires_at": None,
}
_SECRET_EXAMPLE = "whsk_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyB5tVYuj+ZU+UB4sRLoqYunkB+FOuaVvtfg45ELrQSWZA=="  # noqa: S105


class SigningKeyIn(BaseModel):
    """A new key."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"overlap_seconds": 3600}]})

    type: Literal["hmac", "ed25519"] = Field("hmac", description="hmac signs as `v1`, ed25519 as `v1a`.")
    secret: str | None = Field(
        None, max_length=200, description="Your own secret, `whsec_...` or `whsk_...`; default: the hub makes one."
    )
    overlap_seconds: int | None = Field(
        _OVERLAP_SECONDS, ge=0, le=31_536_000,
        description="The time in which the former keys also sign; 0: not at all; null: without end.",
    )  # fmt: skip


class SigningKeyOut(BaseModel):
    """A key that signs."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    number: int
    type: Literal["hmac", "ed25519"]
    public_key: str | None = Field(description="ed25519: `whpk_...`, which checks signatures.")
    created_at: datetime
    expires_at: datetime | None = Field(description="End of its validity.")


class SigningKeyMade(SigningKeyOut):
    """A new key with its secret, which is shown only now."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_EXAMPLE, "secret": _SECRET_EXAMPLE}]})

    secret: str | None = Field(description="Null in a repeated answer.")


class SigningKeyList(BaseModel):
    """The keys that sign, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_EXAMPLE]}]})

    items: list[SigningKeyOut]


def _out(info: KeyInfo) -> dict[str, Any]:
    return {
        "number": info.number, "type": info.type, "public_key": info.public_key, "created_at": info.created_at,
        "expires_at": info.expires_at,
    }  # fmt: skip


@router.get("", name="list_keys", summary="List the signing keys")
@needs("subscribe", "read", reach="route")
async def list_keys(request: Request, subscription_id: str, context: In) -> SigningKeyList:
    """Newest first. Secrets are not shown."""
    row = await find(request, subscription_id, context)
    found = await context.signing_keys.live(row["id"], row["protocol"])
    return SigningKeyList.model_validate({"items": [_out(info) for info in found]})


@router.post(
    "",
    name="rotate_key",
    status_code=201,
    summary="Rotate: create a new key",
    responses=refusals(*OPTIONAL_BODY, "keys-refused"),
)
@needs("subscribe", reach="route")
async def rotate_key(
    request: Request, subscription_id: str, body: SigningKeyIn, response: Response, context: In
) -> SigningKeyMade:
    """Deliveries carry the signatures of all live keys, newest first, so a receiver may change over at any time."""
    row = await find_to_change(request, subscription_id, context)
    try:
        made = await context.signing_keys.rotate(row["public_id"], body.type, body.secret, body.overlap_seconds)
    except KeysRefused as error:
        raise Problem("keys-refused", str(error)) from None
    except ValueError as error:
        raise Problem("invalid-parameter", str(error), parameter="secret") from None
    if made is None:
        raise no_such_subscription()
    info, secret = made
    await audited(request, context, "signing_key.make", f"{row['public_id']} {info.number}")
    response.headers["Cache-Control"] = "no-store"
    return SigningKeyMade.model_validate({**_out(info), "secret": secret})


@router.delete(
    "/{number}",
    name="end_key",
    status_code=204,
    summary="End a key",
    responses=refusals("keys-refused", "invalid-parameter"),
)
@needs("subscribe", reach="route")
async def end_key(request: Request, subscription_id: str, number: int, context: In) -> None:
    """Stops its use within seconds. The last key cannot end, because no delivery is sent unsigned."""
    row = await find_to_change(request, subscription_id, context)
    try:
        ended = await context.signing_keys.end(row["public_id"], number) if 0 < number < 2**31 else False
    except KeysRefused as error:
        raise Problem("keys-refused", str(error)) from None
    if not ended:
        raise Problem("not-found", "There is no such key.")
    await audited(request, context, "signing_key.end", f"{row['public_id']} {number}")
