"""/docs and /openapi.json: the contract, live, and a page to read and try it that needs no network."""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Annotated, Final

from fastapi import Depends, FastAPI
from fastapi_swagger import resources as swagger_ui  # type: ignore[import-untyped]  # only its files are used
from starlette.responses import Response

from app.web import pages
from app.web.api.contract import openapi_document
from app.web.api.route.context import Context, context_of
from app.web.problem import Problem
from app.web.scopes import open_to_all

__all__ = ["install_docs"]

In = Annotated[Context, Depends(context_of)]
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
    def document() -> bytes:
        return json.dumps(openapi_document(api), separators=(",", ":")).encode()

    @api.get("/openapi.json", include_in_schema=False)
    @open_to_all
    async def openapi() -> Response:
        return Response(document(), media_type="application/json", headers={"Cache-Control": "no-cache"})

    api.get("/docs", include_in_schema=False)(_page)
    api.get("/docs/{name}", include_in_schema=False)(_asset)


@open_to_all
async def _page(context: In) -> Response:
    _check_allowed(context)
    nonce = secrets.token_urlsafe(16)
    headers = {"Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
    return Response(_PAGE.substitute(nonce=nonce), media_type="text/html", headers=headers)


@open_to_all
async def _asset(name: str, context: In) -> Response:
    _check_allowed(context)
    if name not in _ASSETS:
        raise Problem("not-found")
    return Response(_read(name), media_type=_ASSETS[name], headers={"Cache-Control": "public, max-age=86400"})


@lru_cache(maxsize=len(_ASSETS))
def _read(name: str) -> bytes:
    return files(swagger_ui).joinpath(name).read_bytes()


def _check_allowed(context: Context) -> None:
    if not context.settings.serves_docs:
        raise Problem("not-found", "The docs page is off in production; HOOKWIRE_DOCS=true serves it.")
