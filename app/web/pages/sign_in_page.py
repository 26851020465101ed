"""The form in which a browser signs in with an API key, and the page of a refused request."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from app.web.pages.markup import section
from app.web.pages.sessions import session_token
from app.web.pages.shell import PageFrame, page
from app.web.problem import Problem

__all__ = ["bare_frame", "problem_content", "refused_page", "return_address", "sign_in_page"]

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="hookwire"'}
"""Without Basic, whose login of the browser would hide the form. A client may send Basic unasked."""
_ADDRESS: Final = re.compile(r"[a-z-]+(/[A-Za-z0-9._~%-]+){0,3}(\?[A-Za-z0-9._~%&=+-]*)?")
_ADDRESS_MAX: Final = 2_000


def bare_frame(scope: Scope) -> PageFrame:
    """Return the frame of a page for a reader who is not known."""
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    return PageFrame(path, scope.get("query_string", b"").decode("latin-1"))


def return_address(text: str) -> str:
    """Return the address of a page of the console, relative to the console; any other text becomes its first page."""
    is_ours = len(text) <= _ADDRESS_MAX and _ADDRESS.fullmatch(text) and ".." not in text
    return text if is_ours and not text.startswith("sign-") else "../console"


def sign_in_page(frame: PageFrame, address: str, words: str = "", status: int = 200) -> Response:
    """Return the form. It leads to the page at ``address``, such as :func:`return_address` gives."""
    told = f'<p class="notice bad" role="alert">{escape(words)}</p>' if words else ""
    content = section(
        "Sign in",
        f'{told}<form class="act" method="post" action="sign-in">'
        f'<input type="hidden" name="next" value="{escape(address)}">'
        '<label>API key<input type="password" name="key" required maxlength="100" autocomplete="current-password" '
        'placeholder="hwk_..." autofocus></label><div class="buttons"><button>Sign in</button></div></form>'
        '<p class="soft">An operator makes a key by <code>hookwire keys create</code>. The scope <code>read</code> '
        "shows pages; <code>subscribe</code>, <code>operate</code> and <code>admin</code> permit changes. A session "
        "ends after eight hours, when you sign out, or with its key.</p>",
    )
    return page(frame, "Sign in", content, status, headers=_CHALLENGE if status == 401 else None)


def refused_page(problem: Problem, scope: Scope) -> Response:
    """Return the page for a browser that is not let in: the form, or the reason."""
    frame = bare_frame(scope)
    if problem.slug == "unauthorized":
        words = problem.detail if session_token(scope) is not None else ""
        return sign_in_page(frame, return_address(frame.address), words, 401)
    headers = {} if problem.retry_after_seconds is None else {"Retry-After": str(problem.retry_after_seconds)}
    return page(frame, problem.kind.title, problem_content(problem), problem.status, headers=headers)


def problem_content(problem: Problem) -> str:
    """Return what happened, why, and what to do."""
    return section(
        problem.kind.title,
        f'<p class="notice bad" role="alert">{escape(problem.detail)}</p><p>{escape(problem.kind.cure)}</p>'
        f'<p class="soft"><a href="../problems/{problem.slug}">More about this problem</a>, '
        '<a href="../console">first page</a></p>',
    )
