"""The contract: checked in, fresh, valid, and true of the live service (EC-18, EC-25, SE-10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from app.web.application import build_api
from app.web.problem import Problems
from relay.amqp.message import message_of
from relay.kafka.headers import Headers
from relay.record import Record
from scripts.openapi import OPENAPI_FILE, text
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub

FOLDER = Path(__file__).parents[3] / "openapi"
DOCUMENT = json.loads(OPENAPI_FILE.read_text())
ASYNCAPI = yaml.safe_load((FOLDER / "asyncapi.yaml").read_text())
EVENT_SCHEMA = json.loads((FOLDER / "event.schema.json").read_text())
FORMER = {"/jobs/kinds": "/job-kinds", "/jobs/periodic": "/job-schedules", "/tasks/kinds": "/task-kinds"}
METHODS = ("get", "put", "post", "patch", "delete")
RECORD = Record(
    id=42,
    shard=0,
    tenant="default",
    event_id="evt_k3v7q2ha_42",
    topic="orders.created",
    key="customer-17é",
    sequence=42,
    content_type="application/json",
    headers={"ce-id": "1", "ce-source": "/shop", "ce-type": "t", "ce-specversion": "1.0", "traceparent": "00-1"},
    payload=b"{}",
    accepted_at=datetime(2026, 1, 15, 9, 31, tzinfo=UTC),
)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS if method in item)


def resolved(document: dict[str, Any], node: Any) -> Any:
    """The node with every reference replaced by what it leads to; there are no cycles."""
    if isinstance(node, list):
        return [resolved(document, value) for value in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return resolved(document, target)
    return {name: resolved(document, value) for name, value in node.items()}


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(resolved(document, schema))


def headers_validator(message: str) -> Draft202012Validator:
    return validator(ASYNCAPI, ASYNCAPI["components"]["messages"][message]["headers"])


def test_the_document_is_what_the_code_says() -> None:
    """WH-T07."""
    assert OPENAPI_FILE.read_text() == text(), "run: make openapi"


def test_the_document_is_openapi_3_1() -> None:
    validate(DOCUMENT)

    assert DOCUMENT["openapi"].startswith("3.1.")


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]

    assert len(set(names)) == len(names)
    assert [
        path for path, _, operation in operations() if not (operation.get("summary") and operation.get("tags"))
    ] == []


def test_linters_find_nothing_to_warn_about() -> None:
    """GU-19: each tag is listed; a description, a security and a refusal are everywhere; no scope at a key."""
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    received = [("webhook", "post", webhook["post"]) for webhook in DOCUMENT["webhooks"].values()]
    found = {
        operation["operationId"]: [
            bool(operation.get("description")), tags.issuperset(operation["tags"]),
            operation.get("security") in ([], [{}, {"key": []}]),
            any(name[0] == "4" for name in operation["responses"]),
        ]
        for _, _, operation in [*operations(), *received]
    }  # fmt: skip

    assert {name: words for name, words in found.items() if not all(words)} == {}


def test_no_path_can_be_taken_for_another() -> None:
    """GU-19: where two paths are alike, each of their words that differ is a word of the path, no parameter."""
    paths = [path.split("/") for path in DOCUMENT["paths"]]
    alike = [
        ("/".join(one), "/".join(other))
        for one, other in combinations(paths, 2)
        if len(one) == len(other) and _crossed([pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]])
    ]

    assert alike == []


def _crossed(pairs: list[tuple[str, str]]) -> bool:
    """Whether each path has a parameter where the other has a word, so that both fit one address."""
    kinds = {(one[0] == "{", other[0] == "{") for one, other in pairs if one and other}
    return (False, False) not in kinds and {(True, False), (False, True)} <= kinds


def test_the_former_names_of_kinds_and_schedules_still_answer() -> None:
    """GU-19."""
    routes = [route for route in build_api(Problems()).routes if isinstance(route, APIRoute)]
    below = {name: [route for route in routes if route.path.startswith(name)] for name in (*FORMER, *FORMER.values())}
    found = {
        name: [(route.path.removeprefix(name), route.methods, route.endpoint) for route in routes]
        for name, routes in below.items()
    }

    assert {name: found[name] for name in FORMER} == {name: found[now] for name, now in FORMER.items()}


def test_publishing_and_the_hub_are_written_like_every_other_route() -> None:
    assert {("/topics/{topic}/events", "post"), ("/hub", "post")} <= {
        (path, method) for path, method, _ in operations()
    }


def media() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every body that has a JSON schema, with its place."""
    for path, method, operation in operations():
        bodies = {"request": operation.get("requestBody", {}), **operation["responses"]}
        for name, body in bodies.items():
            for kind, content in body.get("content", {}).items():
                if "json" in kind:
                    yield f"{method} {path} {name} {kind}", content


def faults_of_examples(content: dict[str, Any]) -> list[str]:
    schema = resolved(DOCUMENT, content["schema"])
    named = [example["value"] for example in content.get("examples", {}).values()]
    named += [content["example"]] if "example" in content else []
    examples = named or schema.get("examples", [])
    wrong = [error.message for example in examples for error in Draft202012Validator(schema).iter_errors(example)]
    return wrong if examples else ["an example is missing"]


def test_every_json_body_has_an_example_and_every_example_is_valid() -> None:
    """One test for 1,200 bodies: a test for each took a tenth of `make unit`."""
    found = {place: faults_of_examples(content) for place, content in media()}

    assert len(found) > 1_000
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        ({"schema": {"type": "integer"}}, ["an example is missing"]),
        ({"schema": {"type": "integer"}, "example": "x"}, ["'x' is not of type 'integer'"]),
        ({"schema": {"type": "integer", "examples": [1, 2]}}, []),
    ],
    ids=["none", "wrong", "in the schema"],
)
def test_a_body_without_a_valid_example_is_found(content: dict[str, Any], faults: list[str]) -> None:
    assert faults_of_examples(content) == faults


def test_no_answer_is_described_in_the_frameworks_words() -> None:
    assert "HTTPValidationError" not in OPENAPI_FILE.read_text()


BAD_REQUESTS = [
    ("GET", "/subscriptions?limit=0", b"", 400),
    ("GET", "/subscriptions?cursor=x", b"", 400),
    ("GET", "/subscriptions/none", b"", 404),
    ("POST", "/subscriptions", b"{", 400),
    ("POST", "/subscriptions", b'{"topic": "a"}', 400),
    ("POST", "/subscriptions", b'{"topic": "a..b", "callback": "http://127.0.0.1:9/x"}', 422),
    ("POST", "/subscriptions", b" " * 70_000, 413),
    ("POST", "/subscriptions/none/ack", b'{"receipts": ["\\u0000"]}', 422),
    ("POST", "/keys", b'{"name": "\\ud800", "scopes": ["read"]}', 422),
    ("PATCH", "/subscriptions/none", b"{}", 404),
    ("DELETE", "/subscriptions/none", b"", 404),
    ("GET", "/deliveries?state=x", b"", 400),
    ("GET", "/deliveries?event_id=x", b"", 404),
    ("GET", "/deliveries/x/attempts", b"", 404),
    ("GET", "/events/x", b"", 404),
    ("GET", "/topics?limit=1e3", b"", 400),
    ("GET", "/topics/none", b"", 404),
    ("GET", "/topics/a..b", b"", 422),
    ("GET", "/topics/none/settings", b"", 404),
    ("PUT", "/topics/a/settings", b"[]", 400),
    ("POST", "/topics/a..b/events", b"", 422),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"), BAD_REQUESTS, ids=[f"{c[0]} {c[1]}" for c in BAD_REQUESTS]
)
async def test_every_refusal_is_documented(
    kept_hub: RunningHub, method: str, path: str, body: bytes, status: int
) -> None:
    """What the service answers is what the document announces, in its media type and of its schema."""
    answer = await kept_hub.client.request(method, path, content=body, headers={"Content-Type": "application/json"})

    template = next(
        t for t in DOCUMENT["paths"] if matches(t, path.partition("?")[0]) and method.lower() in DOCUMENT["paths"][t]
    )
    documented = DOCUMENT["paths"][template][method.lower()]["responses"]
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    schema = documented[str(status)]["content"]["application/problem+json"]["schema"]
    validator(DOCUMENT, schema).validate(answer.json())
    slug = answer.json()["type"].rpartition("/")[2]
    assert slug in documented[str(status)]["content"]["application/problem+json"]["examples"]


def matches(template: str, path: str) -> bool:
    parts, given = template.split("/"), path.split("/")
    return len(parts) == len(given) and all(a == b or a.startswith("{") for a, b in zip(parts, given, strict=True))


async def test_the_live_document_is_the_checked_in_one(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        answer = await hub.client.get("/openapi.json")

        assert answer.json() == DOCUMENT


async def test_the_document_is_compressed_once_and_not_sent_to_who_has_it(running_hub: RunHub) -> None:
    """GS-07."""
    async with running_hub() as hub:
        first = await hub.client.get("/openapi.json", headers={"accept-encoding": "gzip"})
        plain = await hub.client.get("/openapi.json", headers={"accept-encoding": "gzip;q=0"})
        again = await hub.client.get("/openapi.json", headers={"if-none-match": first.headers["etag"]})

        assert first.json() == plain.json()
        assert (first.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
        assert (again.status_code, again.content, again.headers["vary"]) == (304, b"", "Accept-Encoding")


async def test_the_docs_page_loads_nothing_from_elsewhere(running_hub: RunHub) -> None:
    """It works without a network: what it names is served from here, and its policy forbids everything else."""
    async with running_hub() as hub:
        page = await hub.client.get("/docs")
        names = ["docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "openapi.json"]
        statuses = [(await hub.client.get(f"/{name}")).status_code for name in names]

        assert ([name for name in names if name in page.text], statuses) == (names, [200, 200, 200])
        assert "//" not in page.text.replace("https://json", "")
        assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(("docs", "status"), [(None, 404), (True, 200)])
async def test_production_serves_the_docs_page_only_when_asked(
    running_hub: RunHub, docs: bool | None, status: int
) -> None:
    """SE-10."""
    async with running_hub(profile="production", access="proxy", docs=docs) as hub:
        answers = [await hub.client.get(path) for path in ("/docs", "/docs/swagger-ui.css")]

        assert [answer.status_code for answer in answers] == [status, status]


def test_every_reference_of_the_asyncapi_file_leads_somewhere() -> None:
    assert "$ref" not in json.dumps(resolved(ASYNCAPI, ASYNCAPI))


def test_the_asyncapi_examples_are_valid() -> None:
    for name, message in ASYNCAPI["components"]["messages"].items():
        for example in message["examples"]:
            headers_validator(name).validate(example["headers"])


@pytest.mark.parametrize("own", [True, False], ids=["by default", "relay_headers=false"])
def test_a_kafka_record_has_the_documented_headers(own: bool) -> None:
    headers, _ = Headers(term=3, own=own).of(RECORD)

    headers_validator("kafkaRecord").validate({name: value.decode() for name, value in headers})


@pytest.mark.parametrize("own", [True, False], ids=["by default", "relay_headers=false"])
def test_an_amqp_message_has_the_documented_headers(own: bool) -> None:
    headers_validator("amqpMessage").validate(dict(message_of(RECORD, term=3, own_headers=own).headers))


@pytest.mark.parametrize("message", ["kafkaRecord", "amqpMessage"])
def test_our_headers_are_documented_as_all_or_none(message: str) -> None:
    """RO-15."""
    [example] = ASYNCAPI["components"]["messages"][message]["examples"]
    mandatory = ("hookwire-event-id", "hookwire-term", "hookwire-accepted-at")
    rests = [{name: value for name, value in example["headers"].items() if name != left} for left in mandatory]

    assert [headers_validator(message).is_valid(rest) for rest in rests] == [False] * len(mandatory)
    assert headers_validator(message).is_valid({"hookwire-hops": "1", "traceparent": "00-1"})


async def test_a_delivery_has_the_documented_headers_and_an_event_the_documented_form(
    running_hub: RunHub, receiver: Receiver
) -> None:
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a.#", receiver.callback)
        text_event = await hub.publish("a.b", b"{}", Hookwire_Key="k", content_type="application/json")
        binary = await hub.publish("a.b", b"\xff", ce_id="1", ce_source="/s", ce_type="t", ce_specversion="1.0")

        for delivered in await receiver.wait_for(2):
            headers_validator("webhookDelivery").validate(delivered.headers)
        for accepted in (text_event, binary):
            event = (await hub.client.get(f"/events/{accepted.json()['id']}")).json()
            Draft202012Validator(EVENT_SCHEMA).validate(event)
