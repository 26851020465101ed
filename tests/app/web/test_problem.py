"""Problems: one shape for every refusal, a page that explains each kind (RFC 9457, SV-06, design section 8)."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Annotated, Any, Literal

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Header, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field

from app.web.limits import FrontDoor
from app.web.pages import install_problem_pages
from app.web.problem import Problem, Problems, install_problem_handlers
from app.web.problem_kind import ProblemKind
from app.web.problem_kinds import KINDS, kinds_in_order

PROMISED = {
    "bad-request": 400,
    "body-too-large": 413,
    "busy": 503,
    "callback-refused": 422,
    "database-unavailable": 503,
    "duplicate-parameter": 400,
    "header-too-large": 431,
    "idempotency-key-in-flight": 409,
    "idempotency-key-reused": 422,
    "internal-error": 500,
    "invalid-callback": 422,
    "invalid-cloudevent": 400,
    "invalid-cursor": 400,
    "invalid-header": 400,
    "invalid-key": 422,
    "invalid-parameter": 400,
    "invalid-pattern": 422,
    "invalid-topic": 422,
    "line-refused": 400,
    "malformed-batch": 400,
    "malformed-json": 400,
    "method-not-allowed": 405,
    "missing-parameter": 400,
    "not-found": 404,
    "outcome-unknown": 503,
    "request-timeout": 408,
    "shutting-down": 503,
    "too-many-requests": 429,
    "unknown-topic": 404,
    "unsupported-media-type": 415,
    "uri-too-long": 414,
}


class Subscription(BaseModel):
    model_config = ConfigDict(extra="forbid")

    topic: str
    window: int = Field(1, ge=1)
    mode: Literal["fast", "compat"] = "fast"


def service() -> FastAPI:
    app = FastAPI()
    problems = Problems("https://hooks.test")
    install_problem_handlers(app, problems)
    install_problem_pages(app)
    router = APIRouter(prefix="/subscriptions")

    @router.post("")
    async def subscribe(body: Subscription) -> Subscription:
        return body

    @router.get("")
    async def subscriptions(
        limit: Annotated[int, Query(ge=1, le=100)], x_trace: Annotated[int, Header()] = 0
    ) -> dict[str, int]:
        return {"limit": limit, "trace": x_trace}

    @router.delete("/{number}")
    async def unsubscribe(number: int) -> None:
        raise Problem("unknown-topic", f"There is no topic for {number}.", parameter="number")

    @app.get("/teapot")
    async def teapot() -> None:
        raise HTTPException(418, "short and stout", headers={"X-Tea": "green"})

    @app.get("/upstream")
    async def upstream() -> None:
        raise HTTPException(502, "db-7.internal refused the connection")

    app.include_router(router)
    return app


async def ask(method: str, path: str, **options: Any) -> httpx.Response:
    headers = {"x-request-id": "r-1"} | options.pop("headers", {})
    door = FrontDoor(service(), problems=Problems("https://hooks.test"))
    transport = httpx.ASGITransport(door)
    async with httpx.AsyncClient(transport=transport, base_url="http://hookwire.test") as client:
        return await client.request(method, path, headers=headers, **options)


def shape(answer: httpx.Response) -> dict[str, Any]:
    """The document, after what holds for all of them."""
    document: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (document["status"], document["request_id"]) == (answer.status_code, "r-1")
    assert document["type"].startswith("https://hooks.test/problems/")
    return document


# --- the table --------------------------------------------------------------------------------------------------


def test_every_promised_kind_is_there_with_its_status() -> None:
    assert {slug: KINDS[slug].status for slug in PROMISED} == PROMISED


@pytest.mark.parametrize("kind", kinds_in_order(), ids=lambda kind: kind.slug)
def test_every_kind_names_cause_and_cure(kind: ProblemKind) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.slug)
    assert 400 <= kind.status <= 599
    assert 8 <= len(kind.title) <= 80
    assert not kind.title.endswith(".")
    assert kind.cause.endswith(".")
    assert kind.cure.endswith(".")
    assert min(len(kind.cause), len(kind.cure)) >= 25
    assert (kind.retry_after_seconds is not None) == (kind.status in (429, 503) or kind.slug.endswith("in-flight"))


def test_no_kind_is_listed_twice() -> None:
    assert len(kinds_in_order()) == len({kind.title for kind in KINDS.values()}) == len(KINDS)


def test_an_unknown_kind_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        Problem("no-such-kind")


def test_an_extra_member_cannot_replace_a_member_of_the_standard() -> None:
    """RFC 9457 section 3.2."""
    with pytest.raises(AssertionError):
        Problem("busy", instance="/x")


def test_a_document_holds_the_members_of_the_standard_and_ours() -> None:
    """RFC 9457 section 3.1."""
    document = Problems("https://hooks.test/").document(Problem("invalid-topic", "No dots.", parameter="topic"), "r-1")
    assert document == {
        "type": "https://hooks.test/problems/invalid-topic",
        "title": "The topic name is not accepted",
        "status": 422,
        "detail": "No dots.",
        "request_id": "r-1",
        "parameter": "topic",
    }


def test_a_protocol_may_demand_another_status() -> None:
    problem = Problem("invalid-callback", status=400, headers={"Link": "<x>"})
    answer = Problems().answer(problem, "")
    assert (answer.status, (b"link", b"<x>") in answer.headers) == (400, True)


def test_any_text_can_be_quoted_in_an_answer() -> None:
    """B-34: a lone surrogate in the detail must not break the refusal of it; a long text must not make it long."""
    answer = Problems().answer(Problem("invalid-key", "\ud800\x00é" * 10_000), "r-1")
    assert len(answer.body) < 4000


# --- the framework's refusals -----------------------------------------------------------------------------------


async def test_an_unknown_path_is_a_problem() -> None:
    document = shape(await ask("GET", "/nowhere"))
    assert (document["status"], document["detail"]) == (404, KINDS["not-found"].cause)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/subscriptions", "GET, HEAD, POST"), ("/subscriptions/7", "DELETE"), ("/problems", "GET, HEAD")],
)
async def test_a_wrong_method_is_told_all_right_ones(path: str, allowed: str) -> None:
    """RFC 9110 section 15.5.6: several routes on one path make one Allow header."""
    answer = await ask("PUT", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert shape(answer)["type"].endswith("/method-not-allowed")
    assert shape(answer)["detail"] == f"This address answers to {allowed}."


@pytest.mark.parametrize(
    ("sent", "status", "slug", "parameter"),
    [
        ({"url": "/subscriptions"}, 400, "missing-parameter", "limit"),
        ({"url": "/subscriptions?limit=x"}, 400, "invalid-parameter", "limit"),
        ({"url": "/subscriptions?limit=0"}, 400, "invalid-parameter", "limit"),
        ({"url": "/subscriptions?limit=1", "headers": {"x-trace": "t"}}, 400, "invalid-parameter", "x-trace"),
        ({"method": "POST", "url": "/subscriptions", "json": {}}, 400, "missing-parameter", "topic"),
        (
            {"method": "POST", "url": "/subscriptions", "json": {"topic": "a", "window": 0}},
            400,
            "invalid-parameter",
            "window",
        ),
        ({"method": "DELETE", "url": "/subscriptions/x"}, 400, "invalid-parameter", "number"),
    ],
)
async def test_a_parameter_at_fault_is_named(sent: dict[str, Any], status: int, slug: str, parameter: str) -> None:
    answer = await ask(sent.pop("method", "GET"), sent.pop("url"), **sent)
    document = shape(answer)
    assert (answer.status_code, document["type"].rpartition("/")[2]) == (status, slug)
    assert document["parameter"] == document["errors"][0]["parameter"] == parameter


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"topic": "a", "windw": 1}, "body windw: there is no such member"),
        ([], "body: must be a JSON object"),
        ({}, "body topic: is missing"),
    ],
)
async def test_what_is_wrong_with_a_body_is_said_in_our_words(body: object, detail: str) -> None:
    assert shape(await ask("POST", "/subscriptions", json=body))["detail"] == detail


async def test_a_rejected_value_is_not_repeated() -> None:
    """SV-06: what was sent may be a secret."""
    sent = {"topic": ["s3cret"], "mode": "s3cret", "window": "s3cret"}
    document = shape(await ask("POST", "/subscriptions", json=sent))
    assert "s3cret" not in str(document)
    assert [error["parameter"] for error in document["errors"]] == ["topic", "window", "mode"]


async def test_a_flood_of_errors_makes_a_small_answer() -> None:
    document = shape(await ask("GET", "/subscriptions", params=[("limit", "x")] * 500))
    assert len(document["errors"]) <= 20


async def test_broken_json_is_told_where_it_breaks() -> None:
    answer = await ask("POST", "/subscriptions", content=b'{"topic": }', headers={"content-type": "application/json"})
    assert (answer.status_code, shape(answer)["detail"]) == (400, "JSON decode error at character 10")


async def test_a_problem_raised_in_a_route_is_answered_with_its_own_words() -> None:
    answer = await ask("DELETE", "/subscriptions/7")
    assert shape(answer) == {
        "type": "https://hooks.test/problems/unknown-topic",
        "title": "There is no such topic",
        "status": 404,
        "detail": "There is no topic for 7.",
        "request_id": "r-1",
        "parameter": "number",
    }


async def test_another_status_of_the_framework_keeps_its_number_and_headers() -> None:
    answer = await ask("GET", "/teapot")
    assert (answer.status_code, answer.headers["x-tea"], shape(answer)["detail"]) == (418, "green", "short and stout")


async def test_the_detail_of_a_server_error_is_not_told() -> None:
    """SV-06: no host names."""
    answer = await ask("GET", "/upstream")
    assert (answer.status_code, "internal" in shape(answer)["detail"]) == (502, False)


# --- the pages --------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The text, the links and the open elements of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.links: list[str | None] = []
        self.loads: list[str | None] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [tag] if tag not in ("meta", "!doctype") else []
        self.links += [value for name, value in attrs if name == "href"]
        self.loads += [value for name, value in attrs if name == "src"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", kinds_in_order(), ids=lambda kind: kind.slug)
async def test_every_kind_has_a_page_that_explains_it(kind: ProblemKind) -> None:
    answer = await ask("GET", f"/problems/{kind.slug}", headers={"accept": "text/html"})
    page = Page(answer.text)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert all(words in page.text for words in (kind.slug, str(kind.status), kind.title, kind.cause, kind.cure))
    assert (page.links, page.loads, page.open) == (["../problems", "../"], [], [])


async def test_the_index_leads_to_every_page() -> None:
    page = Page((await ask("GET", "/problems")).text)
    assert page.links == [*(f"problems/{kind.slug}" for kind in kinds_in_order()), "./", "docs"]
    assert (page.loads, page.open) == ([], [])


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json", "application/json;q=0.9, */*"])
async def test_a_program_gets_the_facts_as_json(accept: str) -> None:
    one = await ask("GET", "/problems/busy", headers={"accept": accept})
    index = await ask("GET", "/problems", headers={"accept": accept})
    assert (one.json()["cure"], one.json()["retry_after_seconds"]) == (KINDS["busy"].cure, 1)
    assert [row["slug"] for row in index.json()] == [kind.slug for kind in kinds_in_order()]


async def test_a_page_may_do_nothing_but_use_its_own_style() -> None:
    """SV-08: the policy allows exactly the style sheet in the page."""
    import base64
    import hashlib

    answer = await ask("GET", "/problems/busy")
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_an_unknown_kind_has_no_page() -> None:
    answer = await ask("GET", "/problems/<script>")
    assert (answer.status_code, shape(answer)["type"]) == (404, "https://hooks.test/problems/not-found")


async def test_the_pages_are_no_part_of_the_api() -> None:
    assert not [path for path in service().openapi()["paths"] if path.startswith("/problems")]
