"""The form that a browser sends: read within bounds, and judged by its origin and its token.

A form that changes something is accepted from a page of the console only::

    Origin or Sec-Fetch-Site    must be there, and of this hub (app.web.page_policy judges what is there)
    form_token                  with API keys: made from the session's token, which no other page can read
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request

from app.web.api.route.context import context_of
from app.web.pages.sessions import form_token
from app.web.problem import Problem

__all__ = ["own_form", "read_form"]

_TYPE: Final = "application/x-www-form-urlencoded"
_FIELDS_MAX: Final = 40


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that a page of this hub sent; the last value of each counts. Else ``Problem``."""
    if not ("origin" in request.headers or "sec-fetch-site" in request.headers):
        detail = "The browser names no page that sent this form. A program uses the API instead."
        raise Problem("foreign-page", detail)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise Problem("unsupported-media-type", f"A form is sent as {_TYPE}.")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError:
        raise Problem("bad-request", "This is no form: too many fields, or no text in UTF-8.") from None
    if any("\0" in value for _, value in pairs):
        raise Problem("invalid-parameter", "A field of the form has a NUL character.")
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


async def own_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form of the reader's own session; else ``Problem``."""
    form = await read_form(request)
    if context_of(request).settings.needs_keys:
        token: str = getattr(request.state, "session", "")
        if not token or not hmac.compare_digest(form.get("form_token", "").encode(), form_token(token).encode()):
            raise Problem("forbidden", "This form is not of your session. Load its page again, and send it from there.")
    return form
