"""A receiver for Flask."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from hookwire.receive.wsgi import Receiver as WsgiReceiver

__all__ = ["Receiver"]


class Receiver(WsgiReceiver):
    """A receiver as a view of Flask."""

    def blueprint(self, path: str, name: str = "hookwire") -> Blueprint:
        """Return a blueprint that takes deliveries at this path, for an application to register."""
        blueprint = Blueprint(name, __name__)
        blueprint.add_url_rule(
            path, "receive", self.view, methods=["POST", "GET", "OPTIONS"], provide_automatic_options=False
        )
        return blueprint

    def view(self, **_: Any) -> Response:
        """Serve a request of Flask."""
        found = self.respond(request.environ)
        headers = {name: value for name, value in found.headers.items() if name != "Connection"}
        return Response(found.body, found.status, headers)
