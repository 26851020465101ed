"""Each shape of a receiver as an application in this process, for one suite over all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import httpx
from django import setup
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.test import override_settings
from django.urls import path
from fastapi import FastAPI
from flask import Flask
from starlette.applications import Starlette

from hookwire.receive import asgi, django, fastapi, flask, wsgi

if not settings.configured:
    settings.configure(SECRET_KEY="tests", DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}})
    setup()


@dataclass
class Shape:
    """A receiver behind an HTTP client; ``answers`` are those of the paths /one and /two."""

    receiver: Any
    client: httpx.AsyncClient | httpx.Client
    context: Callable[[], AbstractContextManager[Any]] = nullcontext

    async def send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> httpx.Response:
        pairs = [(name, value.encode("latin-1")) for name, value in headers.items()]
        with self.context():
            if isinstance(self.client, httpx.AsyncClient):
                return await self.client.request(method, url, headers=pairs, content=body)
            return self.client.request(method, url, headers=pairs, content=body)


def _tasks(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver")


def _threads(app: Any) -> httpx.Client:
    return httpx.Client(transport=httpx.WSGITransport(app), base_url="http://testserver")


def _asgi(**options: Any) -> Shape:
    receiver = asgi.Receiver(**options)
    return Shape(receiver, _tasks(receiver))


def _fastapi(**options: Any) -> Shape:
    receiver, app = fastapi.Receiver(**options), FastAPI()
    for route in ("/one", "/two"):
        app.include_router(receiver.router(route))
    return Shape(receiver, _tasks(app))


def _starlette(**options: Any) -> Shape:
    receiver = fastapi.Receiver(**options)
    return Shape(receiver, _tasks(Starlette(routes=[receiver.route("/one"), receiver.route("/two")])))


def _wsgi(**options: Any) -> Shape:
    receiver = wsgi.Receiver(**options)
    return Shape(receiver, _threads(receiver))


def _flask(**options: Any) -> Shape:
    receiver, app = flask.Receiver(**options), Flask("tests")
    for name in ("one", "two"):
        app.register_blueprint(receiver.blueprint(f"/{name}", name))
    return Shape(receiver, _threads(app))


def _django(view: str) -> Callable[..., Shape]:
    def make(**options: Any) -> Shape:
        receiver = django.Receiver(**options)
        own = getattr(receiver, view)
        urls = ModuleType("urls")
        urls.__dict__["urlpatterns"] = [path("one", own), path("two", own)]
        checks = ["django.middleware.csrf.CsrfViewMiddleware"]

        def context() -> AbstractContextManager[Any]:
            return override_settings(ROOT_URLCONF=urls, ALLOWED_HOSTS=["*"], MIDDLEWARE=checks)

        with context():
            client = _threads(WSGIHandler()) if view == "view" else _tasks(ASGIHandler())
        return Shape(receiver, client, context)

    return make


SHAPES: dict[str, Callable[..., Shape]] = {
    "asgi": _asgi,
    "fastapi": _fastapi,
    "starlette": _starlette,
    "django": _django("view"),
    "django async": _django("async_view"),
    "wsgi": _wsgi,
    "flask": _flask,
}
