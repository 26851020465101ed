"""The OpenAPI 3.1 document: the framework's routes, and the routes that it does not serve.

The checked-in copy is ``openapi/openapi.json``, written by ``scripts/openapi.py``; a test proves it fresh.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel

from app.web.api.events.inbound_contract import INBOUND_OPERATION, INBOUND_PATH, INBOUND_SCHEMAS
from app.web.api.events.publish_contract import PUBLISH_PATHS, PUBLISH_SCHEMAS
from app.web.api.rabbithub.contract import RABBITHUB_PATHS
from app.web.api.route.refusals import PROBLEM_SCHEMA, refusals
from app.web.api.route.repeat_rules import announce_repeats
from app.web.api.subscribing.hub_contract import HUB_PATHS
from app.web.api.subscribing.webhook_contract import WEBHOOKS
from app.web.problem import PROBLEM_MEDIA_TYPE
from app.web.route_needs import RouteNeeds
from app.web.scopes import OPEN

__all__ = ["TITLE", "VERSION", "openapi_document", "operation_id"]

TITLE: Final = "hookwire"
VERSION: Final = "0.2.0"
_SUMMARY = "POST an event once; it reaches every subscribed webhook, Kafka topic and AMQP exchange."
_DESCRIPTION = """\
An event is stored in one PostgreSQL transaction and delivered in order per key, at least once. No acknowledged event
is lost.

Every refusal but those of `/hub` and `/rabbithub` is an `application/problem+json` document (RFC 9457) whose `type` is
the address of a page that explains cause and cure; all of them are listed at `/problems`.
"""
_TAGS = [
    {"name": "events", "description": "Publish events and follow their delivery."},
    {"name": "subscriptions", "description": "Topics and the callbacks that get their events."},
    {"name": "pull", "description": "Fetch deliveries, instead of having them POSTed."},
    {"name": "queues", "description": "Submit, receive, accept, reject: messages for one receiver, or for each."},
    {"name": "tasks", "description": "Background work that exists only if the caller's transaction committed."},
    {"name": "services", "description": "Ask a service, or work for one."},
    {"name": "requests", "description": "Requests to services: their replies, now or later."},
    {"name": "jobs", "description": "Work for people and machines: assign, delay, review, claim, complete."},
    {"name": "deliveries", "description": "Every event for every subscription, and every attempt."},
    {"name": "incidents", "description": "Failures grouped by their cause, with a state that people set."},
    {"name": "holds", "description": "Keys and topics of a broker that wait because a record was refused."},
    {"name": "sinks", "description": "Where events go: Kafka, AMQP, webhooks and jobs. A person pauses one."},
    {
        "name": "dead letters",
        "description": "Deliveries and records that were given up, for a broker or a subscription.",
    },
    {"name": "sources", "description": "What the hub takes from others: Kafka topics, and webhooks; what it refused."},
    {"name": "replays", "description": "Events sent again, in the background."},
    {"name": "erasures", "description": "Contents of events that go, on behalf of a person."},
    {"name": "audit", "description": "Actions on holds, dead letters and replays, with their actors."},
    {"name": "topics", "description": "Topics, their routing and their latest content."},
    {"name": "WebSub", "description": "The hub of the W3C WebSub recommendation."},
    {"name": "RabbitHub", "description": "Exchanges and queues as endpoints, in RabbitHub's own terms."},
    {"name": "keys", "description": "Keys that permit the use of this API."},
    {"name": "operations", "description": "Health and metrics."},
]
_PREVIEW_TAGS = frozenset({"queues", "tasks", "jobs", "services", "requests", "sources"})
_FIRST_PATHS = ("/topics/{topic}/events", "/topics/{topic}/batch", "/events/{event_id}")
_REFUSED_BY_AUTHENTICATION = refusals("unauthorized", "forbidden", "too-many-requests")
_TOO_LONG = refusals("uri-too-long")
_READS = ("get", "head")
_PROBES = ("/healthz", "/readyz")  # their addresses are judged like every other
_LENIENT = ("/hub", "/rabbithub", "/handshakes")  # other standards define these requests
_SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "hwk_...",
        "description": "An API key, where the hub requires one (`HOOKWIRE_ACCESS`, default in production). "
        "`x-scopes` of an operation are the scopes that its key needs; each list is enough. `admin` holds every scope.",
    }
}
_FRAMEWORK_SCHEMAS = ("HTTPValidationError", "ValidationError")


def operation_id(route: APIRoute) -> str:
    """Return the name of an operation in generated clients: ``subscriptions_create``."""
    tag = "_".join(str(tag).lower().replace(" ", "_") for tag in route.tags)
    return f"{tag}_{route.name.removesuffix(f'_{tag}')}"


def openapi_document(api: FastAPI) -> dict[str, Any]:
    """Return the whole contract as a JSON-ready mapping; the same for every installation."""
    document = get_openapi(
        title=TITLE, version=VERSION, openapi_version="3.1.0", summary=_SUMMARY, description=_DESCRIPTION,
        routes=api.routes, tags=_tags(), servers=[{"url": "/", "description": "This hub."}],
        contact={"name": "The makers of hookwire"}, license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )  # fmt: skip
    doors = {INBOUND_PATH: {"post": INBOUND_OPERATION, **document["paths"].get(INBOUND_PATH, {})}}
    paths = deepcopy({**PUBLISH_PATHS, **document["paths"], **doors, **HUB_PATHS, **RABBITHUB_PATHS})
    document["paths"] = {path: paths[path] for path in dict.fromkeys((*_FIRST_PATHS, *paths))}
    schemas = document["components"]["schemas"] | PUBLISH_SCHEMAS | INBOUND_SCHEMAS | {"Problem": PROBLEM_SCHEMA}
    document["components"]["schemas"] = {
        name: schemas[name] for name in sorted(schemas) if name not in _FRAMEWORK_SCHEMAS
    }
    _restore_examples(document["components"]["schemas"])
    needs = RouteNeeds(api.routes)
    for name, path in document["paths"].items():
        for method, operation in path.items():
            _drop_framework_refusal(operation["responses"])
            if any(parameter["in"] == "query" for parameter in operation.get("parameters", ())) or name in _PROBES:
                operation["responses"] |= {str(status): answer for status, answer in _TOO_LONG.items()}
            if "application/json" in operation.get("requestBody", {}).get("content", {}):
                _announce_unstorable(operation["responses"])
            if method not in _READS and not name.startswith(_LENIENT):
                _announce_unknown_parameter(operation["responses"])
            if method == "post":
                announce_repeats(name, operation)
            need = needs.of({"type": "http", "method": method.upper(), "path": name})
            operation["security"] = []
            if need != OPEN:
                operation["security"] = [{}, {"key": []}]
                operation["x-scopes"] = [list(scopes) for scopes in need.alternatives()]
                operation["responses"] |= {str(status): answer for status, answer in _REFUSED_BY_AUTHENTICATION.items()}
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    for path in document["paths"].values():
        for operation in path.values():
            _describe_one_body(operation.get("requestBody", {}))
            for answer in operation["responses"].values():
                _describe_bytes(answer)
    _describe_defaults(document)
    document["webhooks"] = WEBHOOKS
    return document


def _tags() -> list[dict[str, Any]]:
    """Return the tags, each with the promise for its routes."""
    return [tag | {"x-stability": "preview" if tag["name"] in _PREVIEW_TAGS else "stable"} for tag in _TAGS]


def _describe_one_body(body: dict[str, Any]) -> None:
    """For a body of any type, describe one type, because generators read only one. An extension lists the others."""
    content = body.get("content", {})
    if "*/*" not in content:
        return
    kept = "application/json" if "application/json" in content else "application/octet-stream"
    others = {name: media.get("schema", {}).get("description", "") for name, media in content.items() if name != kept}
    body["content"] = {kept: content.get(kept, {"schema": {"type": "string", "format": "binary"}})}
    body["x-other-content-types"] = others


def _describe_bytes(answer: dict[str, Any]) -> None:
    """For an answer of any type, describe bytes as well, because generators leave out a type that they do not know."""
    content = answer.get("content", {})
    if "*/*" in content:
        answer["content"] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}, **content}


def _describe_defaults(document: dict[str, Any]) -> None:
    """Write defaults into descriptions: generators take a field with ``default`` for required."""
    for place in _requested(document):
        found = place.pop("default", None)
        if found not in (None, []):
            words = place.get("description", "")
            place["description"] = f"{words}{' ' if words else ''}Default: {json.dumps(found)}."


def _requested(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every schema of a parameter or of a request's body, and every schema that it refers to, once."""
    waiting: list[Any] = []
    for path in document["paths"].values():
        for operation in path.values():
            waiting += [parameter["schema"] for parameter in operation.get("parameters", ())]
            waiting += [body["schema"] for body in operation.get("requestBody", {}).get("content", {}).values()]
    seen: set[int] = set()
    while waiting:
        schema = waiting.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        if "$ref" in schema:
            waiting.append(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        waiting += schema.get("properties", {}).values()
        waiting += [part for name in ("anyOf", "oneOf", "allOf") for part in schema.get(name, ())]
        waiting += [schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]


def _announce_unstorable(responses: dict[str, Any]) -> None:
    """Add the refusal of U+0000 and lone surrogates with 422 to every route that reads JSON."""
    for answer in deepcopy(refusals("malformed-json")).values():
        found = responses.setdefault("422", answer)
        found["content"][PROBLEM_MEDIA_TYPE]["examples"] |= answer["content"][PROBLEM_MEDIA_TYPE]["examples"]


def _announce_unknown_parameter(responses: dict[str, Any]) -> None:
    """Add the refusal of unknown query parameters to every request that changes something (``StrictRoute``)."""
    (answer,) = refusals("invalid-parameter").values()
    found = deepcopy(responses.setdefault("400", answer))  # a copy, because routes share their refusals
    examples = found["content"][PROBLEM_MEDIA_TYPE]["examples"]
    if "invalid-parameter" not in examples:
        examples |= answer["content"][PROBLEM_MEDIA_TYPE]["examples"]
        found["description"] += f"; {answer['description']}"
    responses["400"] = found


def _restore_examples(schemas: dict[str, Any]) -> None:
    """Restore examples: the framework drops every null, and with it required members."""
    for model in _models(BaseModel):
        extra = model.model_config.get("json_schema_extra")
        if model.__name__ in schemas and isinstance(extra, dict) and "examples" in extra:
            schemas[model.__name__]["examples"] = extra["examples"]


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models of our routes."""
    for model in base.__subclasses__():
        if model.__module__.startswith(f"{__package__}."):
            yield model
        yield from _models(model)


def _drop_framework_refusal(responses: dict[str, Any]) -> None:
    """Drop the framework's own 422; our refusals are problems, and most of them are 400."""
    content = responses.get("422", {}).get("content", {})
    if "application/json" in content:
        del content["application/json"]
        if not content:
            del responses["422"]
