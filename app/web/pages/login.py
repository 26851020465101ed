"""The page of a 401 for a browser: shown when a person closes the browser's login."""

from __future__ import annotations

from html import escape

from starlette.responses import Response
from starlette.types import Scope

from app.web.pages import html_page
from app.web.problem import Problem, header_fields

__all__ = ["login_page", "wants_page"]


def wants_page(scope: Scope) -> bool:
    """Return whether the request is a browser's for a page, or the form of one."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])


def login_page(problem: Problem, path: str) -> Response:
    """Return the refusal of this path in HTML, with its status and challenges. Links are relative, as on all pages."""
    root = "../" * (path.count("/") - 1)
    content = (
        f"<h1>{escape(problem.kind.title)}</h1>\n<p>{escape(problem.detail)}</p>\n"
        "<h2>What to do</h2>\n<p>Load this page again. The browser asks for a login: any user name will do, and the "
        "password is an API key with the scope <code>read</code> or <code>admin</code>. Operators make one with "
        "<code>hookwire keys create</code>.</p>\n"
        f'<footer class="soft"><a href="{root or "./"}problems/{problem.slug}">More about this problem</a> '
        f'&middot; <a href="{root or "./"}">Status page</a></footer>'
    )
    page = html_page(problem.kind.title, content)
    page.status_code = problem.status
    page.headers["cache-control"] = "no-store"
    page.raw_headers += header_fields(problem)
    return page
