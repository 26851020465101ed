"""The OpenAPI part of ``/rabbithub``: plain routes of ``app.web.api.rabbithub.routes``, so it is written here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["RABBITHUB_PATHS"]

_RETRY = {"Retry-After": {"description": "Seconds to wait before repeating.", "schema": {"type": "integer"}}}
_ANSWERS: dict[str, tuple[str, str]] = {
    "400": ("A parameter, name or body is wrong; the text names it.", "hub.topic is missing"),
    "403": ("The callback is refused by policy, or the default exchange is to be deleted.", "hub.callback is refused"),
    "404": ("There is no such exchange, queue or subscription.", "there is no queue of this name"),
    "409": ("It exists as something else, or the queue is not empty.", "amqp.exchange_type is another one already"),
    "413": ("The body, or the batch, is too large.", "the body is larger than 1048576 bytes"),
    "415": ("The request is neither a form nor JSON.", "the request is a form or JSON, not text/plain"),
    "429": ("Too many requests for this callback's host.", "hub.callback is asked too often"),
    "503": ("Nothing can be stored right now.", "nothing can be stored right now"),
}
_MESSAGE = {"*/*": {"schema": {"description": "The message, any content."}}}

_PAGE = 'Up to 1,000 of them, and some 8 MB. A `Link` with `rel="next"` leads to the others.'


def _parameter(name: str, description: str, *, where: str = "query", **schema: Any) -> dict[str, Any]:
    found = {"name": name, "in": where, "description": description, "schema": {"type": "string", **schema}}
    return {**found, "required": True} if where == "path" else found


def _refusals(*statuses: str) -> dict[str, Any]:
    return {
        status: {
            "description": _ANSWERS[status][0],
            "content": {"text/plain": {"schema": {"type": "string"}, "example": _ANSWERS[status][1]}},
            **({"headers": _RETRY} if status in ("429", "503") else {}),
        }
        for status in statuses
    }


_ABOUT = {
    "describe": "The names, parameters and answers of these operations are RabbitHub's.",
    "create": "An exchange is a topic; a queue is a pull subscription with messages of its own.",
    "publish": "The answer comes after COMMIT. Each subscriber and each bound queue gets the message.",
    "delete": "What was bound to it or subscribed to it ends.",
    "subscribe": "The callback is verified, as in PubSubHubbub 0.3. A queue is bound by the token of its endpoint.",
    "delete_subscription": "The callback gets no more messages.",
    "subscriptions": "A hub can import what this answer holds.",
    "import": "Each item has a result of its own; a bad one does not stop the others.",
    "errors": "Each has its last error and the time of its next try.",
    "subscription": "It is found by its endpoint, callback and topic.",
}


def _operation(
    name: str, summary: str, answers: dict[str, Any], refusals: Sequence[str],
    parameters: Sequence[dict[str, Any]] = (), body: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    refused = _refusals("400", *refusals, "503")
    found = {"tags": ["RabbitHub"], "operationId": f"rabbithub_{name}", "summary": summary,
             "description": _ABOUT[name], "parameters": [*parameters]}  # fmt: skip
    given = {} if body is None else {"requestBody": {"content": body}}
    return {**found, **given, "responses": dict(sorted({**answers, **refused}.items()))}


def _json(description: str, example: Any) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"type": "object"}, "example": example}},
    }


_PLACE = (
    _parameter("kind", "An exchange or a queue.", where="path", enum=["x", "q"]),
    _parameter(
        "name", "Its name, percent-encoded.", where="path", minLength=1, maxLength=255, pattern="^[A-Za-z0-9_-]+$"
    ),
)
_KEY = _parameter("hub.topic", "The routing key.")
_PAIR = (
    _parameter("hub.callback", "The callback, as in the subscribe request."),
    _parameter("hub.topic", "The topic, as in the subscribe request."),
)
_RECORD = {
    "vhost": "/", "resource_type": "queue", "resource_name": "orders", "topic": "t", "callback": "https://shop.example/",
    "lease_expiry_time_microsec": 1_768_469_400_000_000, "lease_seconds": 2_592_000, "ha_mode": "none",
    "status": "active", "max_tps": 0, "outbound_auth": {}, "contact": {}, "id": 7,
}  # fmt: skip
_WISH = {
    "hub.mode": "subscribe", "hub.callback": "https://shop.example/hook", "hub.topic": "eu.#", "hub.verify": "sync",
}  # fmt: skip
_SUBSCRIBE_BODY = {
    "application/x-www-form-urlencoded": {
        "schema": {
            "type": "object",
            "required": ["hub.mode", "hub.callback", "hub.topic", "hub.verify"],
            "properties": {
                "hub.mode": {"type": "string", "enum": ["subscribe", "unsubscribe"]},
                "hub.callback": {"type": "string", "format": "uri"},
                "hub.topic": {"type": "string", "description": "For an exchange: the binding; for a queue: a name."},
                "hub.verify": {"type": "string", "enum": ["sync", "async"]},
                "hub.verify_token": {"type": "string"},
                "hub.lease_seconds": {"type": "integer", "minimum": 1},
                "hub.secret": {"type": "string", "maxLength": 199},
                "hub.basic_auth": {"type": "string", "description": "base64 of user:password, for the callback."},
                "hub.max_tps": {"type": "integer", "minimum": 0, "maximum": 999_999},
                "hub.ha_mode": {"type": "string", "pattern": "^(all|none|[0-9]{1,4})$"},
            },
        },
        "example": _WISH,
    },
    "application/json": {
        "schema": {"type": "object", "required": ["hub"], "properties": {"hub": {"type": "object"}}},
        "example": {"hub": {name.removeprefix("hub."): value for name, value in _WISH.items()}},
    },
}
_DESCRIPTION = {
    "name": "orders",
    "class": "amqp.exchange",
    "type": "topic",
    "href": "https://hub.example/rabbithub/endpoint/x/orders",
    "topic": "hookwire.rabbithub.x7.k.#",
    "facets": {"subscribe": [{"method": "POST", "mode": "subscribe", "parameters": ["hub.callback", "hub.topic"]}]},
}
_ENDPOINT = {
    "get": _operation(
        "describe", "Describe an exchange or a queue; tokens and verifications by `hub.mode`",
        {
            "200": {
                "description": "A description, as XML or JSON; a token; or the challenge.",
                "content": {
                    "application/xml": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"type": "object"}, "example": _DESCRIPTION},
                    "application/x-www-form-urlencoded": {"schema": {"type": "string"}},
                    "text/plain": {"schema": {"type": "string"}},
                },
            }
        },
        ("403", "404"),
        (
            _parameter(
                "hub.mode",
                "`generate_token`: get a token. `subscribe`, `unsubscribe`: another hub verifies a request. Default: "
                "get the description.",
                enum=["generate_token", "subscribe", "unsubscribe"],
            ),
            _parameter("hub.intended_use", "The purpose of the token.", enum=["subscribe", "unsubscribe"]),
            _parameter("hub.verify_token", "The token that another hub verifies."),
            _parameter("hub.challenge", "The challenge of another hub; the answer repeats it."),
        ),
    ),
    "put": _operation(
        "create", "Create an exchange or a queue",
        {
            "201": {"description": "Created.", "headers": {"Location": {"schema": {"type": "string"}}}},
            "202": {
                **_json("AMQP does not have the mirrored exchange yet.",
                        {"state": "declaring", "reason": "no relay has declared it yet"}),
                "headers": {"Location": {"schema": {"type": "string"}}},
            },
            "204": {"description": "The resource exists already."},
        },
        ("404", "409"),
        (
            _parameter("amqp.exchange_type", "Type of an exchange.", enum=["fanout", "direct", "topic", "headers"]),
            _parameter("amqp.mirror", "Whether AMQP gets its messages, too.", enum=["true", "false", "default"]),
        ),
    ),
    "post": _operation(
        "publish", "Publish the body",
        {"202": {"description": "Committed.", "headers": {"Hookwire-Sequence": {"schema": {"type": "integer"}}}}},
        ("404", "413"),
        (_KEY, _parameter("hub.persistmsg", "Has no effect: every message is durable.")),
        _MESSAGE,
    ),
    "delete": _operation(
        "delete", "Delete it with its subscriptions and messages", {"204": {"description": "Deleted."}},
        ("403", "404", "409"), (_parameter("if-empty", "Delete it only if no message waits."),),
    ),
}  # fmt: skip
_SUBSCRIBE = {
    "post": _operation(
        "subscribe", "Subscribe or unsubscribe a callback, or bind a queue by its token",
        {
            "201": _json("Verified, for a request with `ha_mode`.", {"consumers": [{"node": "hub", "status": "ok"}]}),
            "202": {"description": "`async`: accepted, to be verified."},
            "204": {"description": "`sync`: verified. Or the queue is bound or unbound."},
        },
        ("403", "404", "413", "415", "429"), (), _SUBSCRIBE_BODY,
    ),
    "delete": _operation(
        "delete_subscription", "Delete a subscription without asking its callback",
        {"200": _json("Deleted.", {"subscriptions": [{"node": "https://hub.example", "status": "deleted"}]})},
        ("404",), _PAIR,
    ),
}  # fmt: skip

RABBITHUB_PATHS: dict[str, Any] = {
    "/rabbithub/endpoint/{kind}/{name}": {
        verb: {**operation, "parameters": [*_PLACE, *operation["parameters"]]} for verb, operation in _ENDPOINT.items()
    },
    "/rabbithub/subscribe/{kind}/{name}": {
        verb: {**operation, "parameters": [*_PLACE, *operation["parameters"]]} for verb, operation in _SUBSCRIBE.items()
    },
    "/rabbithub/subscriptions": {
        "get": _operation(
            "subscriptions", "Export all subscriptions, or those that end soon",
            {"200": _json(_PAGE, {"subscriptions": [_RECORD]})}, (),
            (
                _parameter("hub.expires", "Subscriptions that end in this many days.", pattern="^[0-9]{1,9}$"),
                _parameter("after", "The last `id` of the page before.", pattern="^[0-9]{1,9}$"),
            ),
        ),
        "post": _operation(
            "import", "Import exported subscriptions, without asking callbacks",
            {"202": _json("A result for each item.", {"subscriptions": [{"resource_name": "orders", "status": "ok"}]})},
            ("413",), (),
            {"application/json": {"schema": {"type": "object"}, "example": {"subscriptions": [_RECORD]}}},
        ),
    },
    "/rabbithub/subscriptions/errors": {
        "get": _operation(
            "errors", "List subscriptions that fail", {"200": _json(_PAGE, {"errors": []})}, (),
            (_parameter("after", "The last `id` of the page before.", pattern="^[0-9]{1,9}$"),),
        )
    },
    "/rabbithub/subscriptions/{kind}/{name}": {
        "get": _operation(
            "subscription", "Get a subscription", {"200": _json("As in an export.", _RECORD)}, ("404",),
            (*_PLACE, *_PAIR),
        )
    },
}  # fmt: skip
