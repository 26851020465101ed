"""/docs and /openapi.json: the contract, live, and a page to read and try it that needs no network.

Where the page is off, as in production, the contract needs a key; any key will do.
"""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Final, get_args

from fastapi import FastAPI, Request
from fastapi_swagger import resources as swagger_ui  # type: ignore[import-untyped]  # only its files are used
from starlette.responses import Response

from app.web import pages
from app.web.api.contract import openapi_document
from app.web.api.dependency import In
from app.web.api.route.context import Context
from app.web.pages.static_answer import StaticAnswer
from app.web.problem import Problem
from app.web.scopes import needs, open_to_all
from hub.keys import Scope

__all__ = ["install_docs"]

_PAGE: Final = Template(files(pages).joinpath("docs.html").read_text("utf-8"))
_ASSETS: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
# The viewer writes style attributes; scripts run only from our origin or with this answer's nonce.
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def install_docs(api: FastAPI) -> None:
    """Serve the page, its two files, and the document; made once, at the first request."""

    @lru_cache(maxsize=1)
    def document() -> StaticAnswer:
        body = json.dumps(openapi_document(api), separators=(",", ":")).encode()
        return StaticAnswer(body, "application/json", {"cache-control": "no-cache"})

    @api.get("/openapi.json", include_in_schema=False)
    @needs(*get_args(Scope), reach="route", docs=True)
    async def openapi(request: Request) -> Response:
        return document().response(request)

    api.get("/docs", include_in_schema=False)(_page)
    api.get("/docs/{name}", include_in_schema=False)(_asset)


@open_to_all
async def _page(context: In) -> Response:
    _check_allowed(context)
    nonce = secrets.token_urlsafe(16)
    headers = {"Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
    return Response(_PAGE.substitute(nonce=nonce), media_type="text/html", headers=headers)


@open_to_all
async def _asset(request: Request, name: str, context: In) -> Response:
    _check_allowed(context)
    if name not in _ASSETS:
        raise Problem("not-found")
    return _read(name).response(request)


@lru_cache(maxsize=len(_ASSETS))
def _read(name: str) -> StaticAnswer:
    body = files(swagger_ui).joinpath(name).read_bytes()
    return StaticAnswer(body, _ASSETS[name], {"cache-control": "public, max-age=86400"})


def _check_allowed(context: Context) -> None:
    if not context.settings.serves_docs:
        raise Problem("not-found", "The docs page is off in production; HOOKWIRE_DOCS=true serves it.")
