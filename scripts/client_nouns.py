"""Write the SDK's nouns and models, ``hookwire/client/nouns.py`` and ``hookwire/models.py``, from OpenAPI.

``.venv/bin/python -m scripts.client_nouns``; a test proves both fresh. Each operation is a method of a noun, once for
``Hookwire`` and once for ``AsyncHookwire``, or it is in ``LEFT_OUT`` with its reason.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SDK = ROOT / "sdk/src/hookwire"
NOUNS_FILE, MODELS_FILE = SDK / "client/nouns.py", SDK / "models.py"
DOCUMENT = json.loads((ROOT / "openapi/openapi.json").read_text(encoding="utf-8"))
SCHEMAS = DOCUMENT["components"]["schemas"]

NOUNS = {
    "events": "Published events and what became of them.",
    "subscriptions": "Topics and the callbacks, or pull clients, that get their events.",
    "signing_keys": "The keys that sign the deliveries of a subscription.",
    "topics": "Topics, their settings and their latest content.",
    "deliveries": "Each event for each subscription, and its attempts.",
    "undelivered": "Deliveries that wait or were given up.",
    "dead_letters": "Deliveries and records that were given up.",
    "replays": "Events sent again, in the background.",
    "incidents": "Failures grouped by their cause.",
    "holds": "Keys and topics of a broker that wait because a record was refused.",
    "sinks": "Where events go: Kafka, AMQP, webhooks and jobs.",
    "sources": "Kafka topics that are read, the records that they refused, and doors for webhooks of others.",
    "erasures": "Contents of events that are removed.",
    "upstreams": "Topics of other publishers that this hub subscribes to.",
    "keys": "Keys that permit the use of the API.",
    "queues": "Message queues.",
    "tasks": "Background work of a transaction.",
    "jobs": "Work for people and machines.",
    "kinds": "Kinds of jobs.",
    "schedules": "Jobs that are made by the clock.",
    "services": "Request and reply: services and their workers.",
    "requests": "Requests to services, and their replies.",
    "audit": "Acts of operators.",
}
PLACES = {
    "subscriptions_list_keys": ("signing_keys", "list"),
    "subscriptions_rotate_key": ("signing_keys", "rotate"),
    "subscriptions_end_key": ("signing_keys", "end"),
    "subscriptions_test": ("subscriptions", "test_filter"),
    "subscriptions_agree": None,
    "pull_create": ("subscriptions", "create_pull"),
    "deliveries_list_undelivered": ("undelivered", "list"),
    "websub_subscribe": ("upstreams", "subscribe"),
    "websub_list_upstreams": ("upstreams", "list"),
    "websub_unsubscribe": ("upstreams", "unsubscribe"),
    "websub_register": ("topics", "register_foreign"),
    "websub_list_foreign_topics": ("topics", "list_foreign"),
    "jobs_list_kinds": ("kinds", "list"),
    "jobs_put_kind": ("kinds", "put"),
    "jobs_pause_kind": ("kinds", "pause"),
    "jobs_resume_kind": ("kinds", "resume"),
    "jobs_list_schedules": ("schedules", "list"),
    "jobs_put_schedule": ("schedules", "put"),
    "jobs_remove_schedule": ("schedules", "remove"),
}
LEFT_OUT = {
    "events_publish": "Hookwire.publish",
    "events_publish_batch": "Hookwire.publish_many",
    "inbound_receive": "for senders of webhooks, which sign in their own ways",
    "subscriptions_agree": "for people, who open the address of a handshake",
    "subscriptions_agree_by_post": "for people, who open the address of a handshake",
    "websub_pair": "for hookwire's own diagnosis of WebSub subscribers",
    "operations_healthz": "for probes",
    "operations_readyz": "for probes",
    "operations_metrics": "for Prometheus",
    "operations_status": "for hookwire status",
    "hub_": "the protocol of WebSub, spoken by its own clients",
    "rabbithub_": "the protocol of RabbitHub, spoken by its own clients",
}
_RENAMED_IN_QUERY = {"subscription_id": "subscription", "event_id": "event"}
_TAGS = {"dead letters": "dead_letters", "pull": "subscriptions"}


def reason_left_out(operation_id: str) -> str | None:
    """Return why an operation is no method of a noun, or None."""
    for name, reason in LEFT_OUT.items():
        if operation_id == name or (name.endswith("_") and operation_id.startswith(name)):
            return reason
    return None


def place_of(operation_id: str, tag: str) -> tuple[str, str]:
    """Return noun and verb of an operation."""
    if (place := PLACES.get(operation_id)) is not None:
        return place
    prefix = tag.replace(" ", "_").lower()
    return _TAGS.get(tag, prefix), operation_id.removeprefix(f"{prefix}_")


@dataclass
class Parameter:
    """A parameter of a method. ``wire`` is its name in the request, ``place`` is path, query, header or body."""

    name: str
    wire: str
    place: str
    annotation: str
    required: bool = False
    default: str = "UNSET"


@dataclass
class Method:
    """A method of a noun."""

    noun: str
    verb: str
    http: str
    path: str
    summary: str
    parameters: list[Parameter] = field(default_factory=list)
    body: str = ""
    result: str = "None"
    shape: str = "none"
    has_key: bool = False


def methods() -> list[Method]:
    """Return the methods of all nouns."""
    found = []
    for path, operations in DOCUMENT["paths"].items():
        for http, operation in operations.items():
            if reason_left_out(operation["operationId"]) is None:
                found.append(_method(path, http.upper(), operation))
    order = list(NOUNS)
    return sorted(found, key=lambda one: (order.index(one.noun), one.verb))


def _method(path: str, http: str, operation: dict[str, Any]) -> Method:
    noun, verb = place_of(operation["operationId"], operation["tags"][0])
    method = Method(noun, verb, http, path, operation["summary"].rstrip("."))
    for parameter in operation.get("parameters", ()):
        _take_parameter(method, parameter)
    _take_body(method, operation.get("requestBody", {}))
    _take_answer(method, operation["responses"])
    return method


def _take_parameter(method: Method, parameter: dict[str, Any]) -> None:
    wire, place, schema = parameter["name"], parameter["in"], parameter["schema"]
    if wire == "Idempotency-Key":
        method.has_key = True
        return
    if wire == "cursor":
        return
    name = wire.lower().removeprefix("hookwire-").replace("-", "_")
    if place == "query":
        name = _RENAMED_IN_QUERY.get(name, name)
    method.parameters.append(
        Parameter(safe(name), wire, place, annotation_of(schema), required=parameter.get("required", False))
    )


def _take_body(method: Method, body: dict[str, Any]) -> None:
    content = body.get("content", {})
    if "application/octet-stream" in content:
        method.body = "bytes"
        return
    if not content:
        return
    schema = resolved(content["application/json"]["schema"])
    method.body = "members"
    needed = schema.get("required", ())
    for name, member in schema["properties"].items():
        method.parameters.append(Parameter(safe(name), name, "body", annotation_of(member), required=name in needed))


def _take_answer(method: Method, responses: dict[str, Any]) -> None:
    successes = [response for status, response in responses.items() if status.startswith("2")]
    contents = [response["content"] for response in successes if response.get("content")]
    if not contents:
        return
    if any("*/*" in content for content in contents):
        method.shape, method.result = "content", "Content"
        return
    models = []
    for content in contents:
        schema = content["application/json"]["schema"]
        members = resolved(schema).get("properties", {})
        if set(members) <= {"items", "next_cursor"} and "items" in members:
            has_pages = "next_cursor" in members
            method.shape = "pages" if has_pages else "items"
            models.append(model_name(members["items"]["items"]["$ref"]))
        else:
            method.shape = "model"
            models.append(model_name(schema["$ref"]))
    names = list(dict.fromkeys(models))
    method.shape = "either" if len(names) > 1 else method.shape
    method.result = " | ".join(f"models.{name}" for name in names)


def model_name(reference: str) -> str:
    """Return the name of a model: that of its schema, without Out."""
    return reference.rpartition("/")[2].removesuffix("Out")


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a reference names."""
    return SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def safe(name: str) -> str:
    """Return a name that Python permits."""
    name = re.sub(r"\W", "_", name)
    return f"{name}_" if keyword.iskeyword(name) else name


def annotation_of(schema: dict[str, Any], *, models: bool = False) -> str:
    """Return the type of a parameter, or of a model's member."""
    if "$ref" in schema:
        target = SCHEMAS[schema["$ref"].rpartition("/")[2]]
        if target.get("properties") and models:
            return model_name(schema["$ref"])
        return "Mapping[str, Any]" if target.get("properties") else "Any"
    kinds = schema.get("anyOf") or schema.get("oneOf")
    if kinds is None and isinstance(schema.get("type"), list):
        kinds = [{**schema, "type": one} for one in schema["type"]]
    if kinds:
        parts = list(dict.fromkeys(annotation_of(kind, models=models) for kind in kinds))
        if "Any" in parts:
            return "Any"
        return " | ".join(sorted(parts, key=lambda part: part == "None"))
    return _simple(schema, models=models)


def _simple(schema: dict[str, Any], *, models: bool) -> str:
    kind = schema.get("type")
    if kind == "string" and schema.get("format") == "date-time":
        return "datetime" if models else "datetime | str"
    if kind == "array":
        return f"Sequence[{annotation_of(schema.get('items', {}), models=models)}]"
    simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    return simple.get(str(kind), "Mapping[str, Any]" if kind == "object" else "Any")


# --- the nouns --------------------------------------------------------------------------------------------------------


def nouns_text() -> str:
    """Return the module of the nouns."""
    made = methods()
    parts = [_NOUNS_HEAD]
    for noun, words in NOUNS.items():
        own = [method for method in made if method.noun == noun]
        name = _class_name(noun)
        parts.append(f'class {name}(Noun):\n    """{words}"""\n\n' + "\n".join(_define(one, "") for one in own))
        parts.append(
            f'class Async{name}(AsyncNoun):\n    """{words}"""\n\n' + "\n".join(_define(one, "async ") for one in own)
        )
    return "\n\n".join([*parts, _attributes("", "threads"), _attributes("Async", "tasks")])


def _attributes(prefix: str, users: str) -> str:
    """Return the base class of the client for these users: each noun is an attribute."""
    lines = [f"        self.{noun} = {prefix}{_class_name(noun)}(runner)\n" for noun in NOUNS]
    head = f'class {prefix}Nouns:\n    """The nouns of a client, for {users}."""\n\n'
    return f"{head}    def __init__(self, runner: {prefix}Runner) -> None:\n{''.join(lines)}"


def _class_name(noun: str) -> str:
    return "".join(word.capitalize() for word in noun.split("_"))


def _define(method: Method, prefix: str) -> str:
    """Return a method's text. ``prefix`` is ``async `` in the class for tasks."""
    is_iterator = method.shape == "pages"
    result = f"Listed[{method.result}]" if method.shape == "items" else method.result
    if is_iterator:
        result = f"{'AsyncIterator' if prefix else 'Iterator'}[{result}]"
    returns = "" if method.shape == "none" else "return "
    awaits = "await " if prefix and not is_iterator else ""
    head = "def" if is_iterator else f"{prefix}def"
    body = f"{returns}{awaits}self._{method.shape}({', '.join(_arguments(method))})"
    signature = ", ".join(_signature(method))
    text = f'{head} {safe(method.verb)}({signature}) -> {result}:\n    """{method.summary}."""\n    {body}\n'
    return textwrap.indent(text, "    ")


def _named(method: Method) -> list[Parameter]:
    found = [one for one in method.parameters if one.place != "path"]
    return sorted(found, key=lambda one: not one.required)


def _has_deadline(method: Method) -> bool:
    """Return whether ``timeout_seconds`` is that of the call: a subscription has one of its own."""
    return all(one.name != "timeout_seconds" for one in method.parameters)


def _signature(method: Method) -> list[str]:
    path = [f"{one.name}: str | int" for one in method.parameters if one.place == "path"]
    keywords = [f"{one.name}: {one.annotation}{'' if one.required else ' = UNSET'}" for one in _named(method)]
    body = []
    if method.body == "bytes":
        body.append("body: bytes = b''")
        keywords.append("content_type: str | None = None")
    if method.has_key:
        keywords.append("idempotency_key: str | None = None")
    if _has_deadline(method):
        keywords.append("timeout_seconds: float | None = None")
    return ["self", *path, *(["/"] if path else []), *body, *(["*", *keywords] if keywords else [])]


def _arguments(method: Method) -> list[str]:
    path = [one for one in method.parameters if one.place == "path"]
    arguments = [repr(method.http), _path_text(method, path), repr(f"{method.noun}.{method.verb}")]
    if method.shape in ("model", "either", "items", "pages"):
        arguments += method.result.split(" | ")
    for option, place in (("query", "query"), ("headers", "header"), ("members", "body")):
        chosen = [one for one in _named(method) if one.place == place]
        if chosen or (place == "body" and method.body == "members"):
            arguments.append(f"{option}={{{', '.join(f'{one.wire!r}: {one.name}' for one in chosen)}}}")
    if method.body == "bytes":
        arguments += ["body=body", "content_type=content_type"]
    if method.has_key:
        arguments += ["idempotency_key=idempotency_key", "is_keyed=True"]
    return [*arguments, *(["timeout_seconds=timeout_seconds"] if _has_deadline(method) else [])]


def _path_text(method: Method, path: list[Parameter]) -> str:
    text = method.path
    for one in path:
        text = text.replace("{" + one.wire + "}", "{segment(" + one.name + ")}")
    return f'f"{text}"' if path else f'"{text}"'


_NOUNS_HEAD = '''"""Nouns of the API and their verbs, for both clients. Written by ``scripts/client_nouns.py``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hookwire import models
from hookwire.client.noun import UNSET, AsyncNoun, AsyncRunner, Listed, Noun, Runner, segment
from hookwire.model import Content

__all__ = [
'''
_CLASSES = [f"{prefix}{_class_name(noun)}" for prefix in ("", "Async") for noun in (*NOUNS, "nouns")]
_NOUNS_HEAD += "".join(f'    "{name}",\n' for name in ("NOUNS", *sorted(_CLASSES)))
_NOUNS_HEAD += "]\n\nNOUNS = (\n" + "".join(f'    "{noun}",\n' for noun in NOUNS) + ')\n"""Attributes of a client."""'


def formatted(text: str) -> str:
    """Return the text as the formatter writes it."""
    command = [str(Path(sys.executable).parent / "ruff"), "format", "--stdin-filename", str(NOUNS_FILE), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return str(done.stdout)


def texts() -> dict[Path, str]:
    """Return the text of each file, by path."""
    from scripts.client_models import models_text

    return {NOUNS_FILE: formatted(nouns_text()), MODELS_FILE: formatted(models_text())}


def main() -> None:
    """Write both files."""
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
