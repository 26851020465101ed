"""The pages of problem types: the event, its cause and its cure.

GET /problems lists every kind, GET /problems/{slug} explains one; with `Accept: application/json` (or problem+json) the
same facts come as JSON. The pages carry their style with them and load nothing, so they work without a network; links
are relative, so they work behind any prefix.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from dataclasses import asdict
from functools import lru_cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from app.web.pages.static_answer import StaticAnswer
from app.web.problem import Problem
from app.web.problem_kind import ProblemKind
from app.web.problem_kinds import KINDS, kinds_in_order
from app.web.scopes import open_to_all

if TYPE_CHECKING:
    from fastapi import FastAPI

_SHELL: Final = files(__name__).joinpath("problem.html").read_text("utf-8")
_STYLE_HASH: Final = b64encode(
    hashlib.sha256(_SHELL.partition("<style>")[2].partition("</style>")[0].encode()).digest()
).decode()
# The page may use only this style sheet: no script, image, frame or form.
_PAGE_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "cache-control": "public, max-age=3600",
    "vary": "Accept",
}


def install_problem_pages(app: FastAPI) -> None:
    """Serve the index and one page per kind; they are documentation and no part of the API's schema."""

    @app.get("/favicon.ico", include_in_schema=False)
    @open_to_all
    async def favicon() -> Response:
        raise Problem("not-found")

    @app.get("/problems", include_in_schema=False)
    @open_to_all
    async def problem_index(request: Request) -> Response:
        return _index(_wants_json(request)).response(request)

    @app.get("/problems/{slug}", include_in_schema=False)
    @open_to_all
    async def problem_page(request: Request, slug: str) -> Response:
        if slug not in KINDS:
            raise Problem("not-found", "There is no kind of problem with this name; /problems lists all of them.")
        return _page(slug, _wants_json(request)).response(request)


@lru_cache(maxsize=2)
def _index(as_json: bool) -> StaticAnswer:
    kinds = kinds_in_order()
    if as_json:
        return _json([asdict(kind) for kind in kinds])
    return _html("Problems", index_content(kinds))


@lru_cache(maxsize=2 * len(KINDS))
def _page(slug: str, as_json: bool) -> StaticAnswer:
    kind = KINDS[slug]
    return _json(asdict(kind)) if as_json else _html(kind.title, problem_content(kind))


def problem_content(kind: ProblemKind) -> str:
    """Return the explanation of one kind, as the HTML inside the page."""
    again = ""
    if kind.retry_after_seconds is not None:
        again = f"<h2>When to try again</h2>\n<p>After {kind.retry_after_seconds} s, or as Retry-After says.</p>\n"
    return (
        f'<p class="soft"><code>{escape(kind.slug)}</code> &middot; status {kind.status}</p>\n'
        f"<h1>{escape(kind.title)}</h1>\n"
        f"<h2>Why this happens</h2>\n<p>{escape(kind.cause)}</p>\n"
        f"<h2>What to do</h2>\n<p>{escape(kind.cure)}</p>\n{again}"
        '<footer class="soft"><a href="../problems">All problems</a> &middot; <a href="../">Status page</a></footer>'
    )


def index_content(kinds: list[ProblemKind]) -> str:
    """Return the table of all kinds, as the HTML inside the page."""
    rows = "\n".join(map(_row, kinds))
    return (
        "<h1>Problems</h1>\n"
        '<p class="soft">Every refusal of this service is one of these. Its answer carries the address of its page in '
        "<code>type</code>, the present cause in <code>detail</code>, and a <code>request_id</code> by which the "
        "operator finds it in the log.</p>\n"
        f"<table>\n<tr><th>Status</th><th>Problem</th><th>In short</th></tr>\n{rows}\n</table>\n"
        '<footer class="soft"><a href="./">Status page</a> &middot; <a href="docs">API docs</a></footer>'
    )


def _row(kind: ProblemKind) -> str:
    slug = escape(kind.slug)
    link = f'<a href="problems/{slug}"><code>{slug}</code></a>'
    return f"<tr><td>{kind.status}</td><td>{link}</td><td>{escape(kind.title)}</td></tr>"


def _wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "text/html" not in accepted and ("application/json" in accepted or "application/problem+json" in accepted)


def html_page(title: str, content: str) -> Response:
    """Return a page of the problems' look; it may load nothing and run nothing."""
    return Response(_shell(title, content), media_type="text/html", headers=_PAGE_HEADERS)


def _shell(title: str, content: str) -> str:
    return Template(_SHELL).substitute(title=escape(title), content=content)


def _html(title: str, content: str) -> StaticAnswer:
    return StaticAnswer(_shell(title, content).encode(), "text/html; charset=utf-8", _PAGE_HEADERS)


def _json(facts: object) -> StaticAnswer:
    return StaticAnswer(json.dumps(facts).encode(), "application/json", _PAGE_HEADERS)
