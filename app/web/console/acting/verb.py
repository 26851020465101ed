"""Verb: a plain act, a POST with a reason; and the requests and command lines that acts stand for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from app.web.console.acting.act import REASON, Act, Box, Form
from app.web.console.inner_api import ApiRequest

__all__ = ["curl", "is_one_of", "json_request", "line", "rate_of", "reason_of", "verb", "whole"]

_DIGITS_MAX: Final = 10


def json_request(method: str, path: str, identity: str, body: Any, once: str = "") -> ApiRequest:
    """Return a request with a JSON body; ``{}`` in the path is the encoded id."""
    return ApiRequest.with_json(method, path.replace("{}", quote(identity, safe="")), body, once)


def reason_of(form: Form) -> dict[str, str]:
    """Return the member of a body that gives the reason, if there is one."""
    return {"reason": form["reason"]} if form.get("reason") else {}


def whole(text: str) -> int | str:
    """Return a whole number; other text stays as it is, for the API to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX else text


def rate_of(form: Form) -> dict[str, int | str]:
    """Return the member of a body that limits the rate, if there is one."""
    return {"rate_per_second": whole(form["rate_per_second"])} if form.get("rate_per_second") else {}


def line(*words: str, why: str = "") -> str:
    """Return a command line of hookwire, quoted for a shell."""
    return shlex.join(["hookwire", *words, *(["--why", why] if why else [])])


def verb(
    name: str, label: str, question: str, path: str, command: Sequence[str] = (), *, is_danger: bool = False,
    applies: Any = None, boxes: Sequence[Box] = (REASON,), lands: Callable[[str, Any], str] | None = None,
) -> Act:  # fmt: skip
    """Return a plain act of operators: a POST with a reason. Without a ``command`` it stands for curl.

    ``lands``: where it leads to, if the thing may be gone afterwards.
    """

    def body(form: Form) -> dict[str, Any]:
        return reason_of(form) | ({"all": True} if form.get("all") else {})

    def shown(identity: str, form: Form) -> str:
        if not command:
            return curl("POST", path.replace("{}", identity), body(form))
        return line(*command, identity, *(["--all"] if form.get("all") else []), why=form.get("reason", ""))

    return Act(
        name, label, question, ("operate",),
        lambda identity, form: json_request("POST", path, identity, body(form)), shown, boxes,
        applies or (lambda _: True), is_danger, lands=lands,
    )  # fmt: skip


def is_one_of(name: str, *values: object) -> Any:
    """Return whether a member of a thing is one of these."""
    return lambda one: one.get(name) in values


def curl(method: str, path: str, body: Mapping[str, Any]) -> str:
    """Return a command line of curl, for what has no command of its own."""
    return shlex.join(["curl", "-X", method, f"HUB{path}", "--json", json.dumps(body)])
