"""The OpenAPI part of ``/hub``: plain routes of ``app.web.api.subscribing.hub``, so it is written here."""

from __future__ import annotations

from typing import Any

__all__ = ["HUB_PATHS"]

_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["hub.mode"],
    "properties": {
        "hub.mode": {"type": "string", "enum": ["subscribe", "unsubscribe", "publish"]},
        "hub.topic": {
            "type": "string",
            "format": "uri",
            "description": "The topic URL, `<PUBLIC_URL>/topics/{topic}`. For subscribe and unsubscribe.",
        },
        "hub.callback": {"type": "string", "format": "uri", "description": "For subscribe and unsubscribe."},
        "hub.lease_seconds": {
            "type": "integer",
            "minimum": 1,
            "description": "The requested lease; the hub limits it.",
        },
        "hub.secret": {"type": "string", "maxLength": 199, "description": "Signs deliveries (`X-Hub-Signature`)."},
        "hub.hash_algorithms": {"type": "string", "description": "Algorithm of the signature; default sha256."},
        "hub.url": {
            "description": "For publish: the topic URLs that changed; `hub.topic` is read as well.",
            "type": "array",
            "items": {"type": "string", "format": "uri"},
        },
    },
}

_EXAMPLES: dict[str, Any] = {
    "subscribe": {
        "value": {
            "hub.mode": "subscribe",
            "hub.topic": "https://hub.example/topics/orders.created",
            "hub.callback": "https://shop.example/hook",
            "hub.lease_seconds": 864000,
        }
    },
    "publish": {"value": {"hub.mode": "publish", "hub.url": ["https://hub.example/topics/orders.created"]}},
}


def _text(description: str, example: str) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}, "example": example}}
    return {"description": description, "content": content}


_RETRY = {"Retry-After": {"description": "Seconds to wait before repeating.", "schema": {"type": "integer"}}}

_TOKEN: dict[str, Any] = {
    "name": "token",
    "in": "path",
    "required": True,
    "description": "The secret part of the URL, which only that hub knows.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": 64},
}
_HOPS: dict[str, Any] = {
    "name": "Hookwire-Hops",
    "in": "header",
    "description": "The number of hubs that the content has passed.",
    "schema": {"type": "integer", "minimum": 0, "maximum": 7},
}

HUB_PATHS: dict[str, Any] = {
    "/hub": {
        "get": {
            "tags": ["WebSub"],
            "operationId": "hub_help",
            "summary": "Get help for this hub",
            "description": "A person who opens the address of the hub in a browser gets this page.",
            "responses": {
                "200": _text("A page of help, as text.", "This is a WebSub hub."),
                "405": _text("`hub.*` parameters belong in a form that is POSTed.", "requests are POSTed"),
            },
        },
        "post": {
            "tags": ["WebSub"],
            "operationId": "hub_request",
            "summary": "Subscribe, unsubscribe, publish (W3C WebSub, PubSubHubbub)",
            "description": "Subscribing and unsubscribing are answered at once and verified afterwards: the callback "
            "gets a GET with `hub.challenge` and answers 2xx with that text as the whole body. Refusals are plain "
            "text, as WebSub's clients expect.",
            "requestBody": {
                "required": True,
                "content": {"application/x-www-form-urlencoded": {"schema": _FORM, "examples": _EXAMPLES}},
            },
            "responses": {
                "202": _text("Accepted; the callback gets a verification request.", ""),
                "204": {"description": "The publish notification was accepted."},
                "307": {"description": "This hub has moved; `Location` has its new URL."},
                "400": _text(
                    "A parameter is missing, doubled or wrong; the text names it.", "hub.callback: is missing"
                ),
                "403": _text("The topic is not hosted here.", "hub.topic: is not hosted here"),
                "404": _text("A publish names a topic that does not exist.", "hub.url: does not exist"),
                "413": _text("The form has more than 64 KiB.", "the form is larger than 65536 bytes"),
                "415": _text("The body is not a urlencoded form.", "send application/x-www-form-urlencoded"),
                "429": {**_text("Too many requests for this callback's host.", "too many requests"), "headers": _RETRY},
                "503": {**_text("The hub cannot store anything right now.", "repeat later"), "headers": _RETRY},
            },
        },
    },
    "/hub/content": {
        "post": {
            "tags": ["WebSub"],
            "operationId": "hub_content",
            "summary": "Publish a topic's new content, which is the body",
            "description": "The answer comes after COMMIT. The topic may be one that another publisher hosts.",
            "parameters": [
                {
                    "name": "hub.topic",
                    "in": "query",
                    "required": True,
                    "description": "The topic URL, hosted here or another publisher's.",
                    "schema": {"type": "string", "format": "uri", "maxLength": 2048},
                },
                _HOPS,
            ],
            "requestBody": {"content": {"*/*": {"schema": {"description": "The content, of any type."}}}},
            "responses": {
                "202": {
                    "description": "Committed.",
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["sequence"],
                                "properties": {"sequence": {"type": "integer"}},
                            },
                            "example": {"sequence": 42},
                        }
                    },
                },
                "400": _text("`hub.topic` is missing, doubled or wrong.", "hub.topic must be given once, in the query"),
                "403": _text("The topic's URL is refused by policy.", "hub.topic is refused"),
                "404": _text("The topic does not exist, or is not hosted here.", "hub.topic is not hosted here"),
                "413": _text("The content is too large.", "the content is larger than 1048576 bytes"),
                "503": {**_text("The hub cannot store anything right now.", "repeat later"), "headers": _RETRY},
            },
        }
    },
    "/hub/callback/{token}": {
        "get": {
            "tags": ["WebSub"],
            "operationId": "hub_callback_verify",
            "summary": "Another hub verifies a subscription of this one, or denies it",
            "description": "The answer is the challenge only if this hub has asked for the subscription.",
            "parameters": [
                _TOKEN,
                *(
                    {"name": f"hub.{name}", "in": "query", "schema": {"type": "string"}}
                    for name in ("mode", "topic", "challenge", "lease_seconds", "reason")
                ),
            ],
            "responses": {
                "200": _text("The challenge, or nothing for a denial.", "c3VtbWVy"),
                "404": _text("This hub did not ask for it.", "hub.topic was not requested by this hub"),
                "503": {**_text("The hub cannot store anything right now.", "repeat later"), "headers": _RETRY},
            },
        },
        "post": {
            "tags": ["WebSub"],
            "operationId": "hub_callback_deliver",
            "summary": "Another hub delivers",
            "description": "Its signature is checked. Then the content becomes an event of the topic.",
            "parameters": [
                _TOKEN,
                {"name": "X-Hub-Signature", "in": "header", "schema": {"type": "string"}},
                _HOPS,
            ],
            "requestBody": {"content": {"*/*": {"schema": {"description": "The content, of any type."}}}},
            "responses": {
                "202": {"description": "Committed; or ignored, where the signature is wrong."},
                "400": _text("The content has passed too many hubs.", "hookwire-hops says that this has passed 8 hubs"),
                "403": _text("The signature is missing, or of an unknown method.", "X-Hub-Signature is missing"),
                "404": _text("There is no such callback.", "there is no such callback"),
                "410": _text("The subscription has ended.", "this subscription has ended"),
                "413": _text("The content is too large.", "the content is larger than 1048576 bytes"),
                "503": {**_text("The hub cannot store anything right now.", "repeat later"), "headers": _RETRY},
            },
        },
    },
}
