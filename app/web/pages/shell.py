"""The shell round each page: its head, the menu, the search box, who is signed in, and its security headers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from starlette.responses import Response

from app.web.pages.markup import code

__all__ = ["PageFrame", "form_fields", "page"]

_TEXT: Final = files(__package__).joinpath("shell.html").read_text("utf-8")
_SHELL: Final = Template(_TEXT)
_VERSION: Final = sha256(_TEXT.encode()).hexdigest()[:12]
"""Names the script. An open page whose script is another one loads itself again."""
_POLICY: Final = (
    "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of each page. ``nonce`` permits its own style and script."""
_HEADERS: Final = {
    "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
# With "no-referrer" a browser would send "Origin: null" with our own forms.
_PULSE: Final = "This page refreshes every 5 seconds."
_REFRESH: Final = '<noscript><meta http-equiv="refresh" content="10"></noscript>\n'
_ELSEWHERE: Final = (("../docs", "API docs"), ("../problems", "Problems"), ("../metrics", "Metrics"))


@dataclass(frozen=True, slots=True)
class PageFrame:
    """What a page must know of its request. ``path`` and ``query`` are as they were sent.

    ``menu``: address and name of each list. ``actor``: the name of the key. ``token``: what each form carries; empty
    without a session. ``may_act``: whether a form of this reader can be accepted.
    """

    path: str
    query: str = ""
    place: str = ""
    menu: Sequence[tuple[str, str]] = ()
    actor: str = ""
    token: str = ""
    may_act: bool = False

    @property
    def root(self) -> str:
        """Return the relative address below which the pages of the console lie, behind any prefix."""
        depth = self.path.count("/") - 1
        return "../" * (depth - 1) + ("./" if depth == 1 else "") if depth else "console/"

    @property
    def address(self) -> str:
        """Return the relative address of this page, seen from :attr:`root`."""
        own = self.path.removeprefix("/console/") if self.path.count("/") > 1 else "../console"
        return f"{own}?{self.query}" if self.query else own


def page(
    frame: PageFrame, title: str, content: str, status: int = 200, *, is_live: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Response:  # fmt: skip
    """Return the whole document. ``is_live``: its script fetches it again every five seconds."""
    nonce = secrets.token_urlsafe(16)
    text = _SHELL.substitute(
        content=content, nonce=nonce, root=escape(frame.root), title=escape(f"{title} - hookwire"),
        version=_VERSION, hue=_hue(frame.place),
        header=_header(frame), pulse=_PULSE if is_live else "", refresh=_REFRESH if is_live else "",
    )  # fmt: skip
    policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
    return Response(text, status, {**_HEADERS, **policy, **(headers or {})}, media_type="text/html")


def _hue(place: str) -> int:
    """Return the colour of an instance, in degrees, by its public URL: so production is not taken for a test."""
    return int.from_bytes(sha256(place.encode()).digest()[:2]) % 360


def form_fields(frame: PageFrame) -> str:
    """Return the hidden field of each form that changes something."""
    return f'<input type="hidden" name="form_token" value="{frame.token}">' if frame.token else ""


def _header(frame: PageFrame) -> str:
    links = "".join(f'<a href="{address}">{name}</a>' for address, name in _ELSEWHERE)
    skip = f'<a class="skip" href="{escape(frame.address)}#status">To the content</a>'
    return (
        f'{skip}<header><h1><a href="../console">hookwire</a></h1>'
        f'<span class="soft where">{code(frame.place) if frame.place else ""}</span>{_search(frame)}'
        f'<nav aria-label="More">{links}</nav>{_signed_in(frame)}</header>{_menu(frame)}'
    )


def _search(frame: PageFrame) -> str:
    if not frame.menu:
        return ""
    return (
        '<form action="search" role="search"><input type="search" name="q" maxlength="300" '
        'aria-label="Search by id or name" placeholder="Id, name, key or host"><button>Search</button></form>'
    )


def _signed_in(frame: PageFrame) -> str:
    if not frame.token:
        return ""
    return (
        f'<form method="post" action="sign-out">{form_fields(frame)}<span class="soft">{escape(frame.actor)}</span>'
        "<button>Sign out</button></form>"
    )


def _menu(frame: PageFrame) -> str:
    here = frame.path.removeprefix("/console").strip("/").partition("/")[0]
    links = "".join(
        f'<a href="{address}"{_current(address.removeprefix("../console") == here)}>{escape(name)}</a>'
        for address, name in frame.menu
    )
    return f'<nav class="menu" aria-label="Lists">{links}</nav>' if links else ""


def _current(is_here: bool) -> str:
    return ' aria-current="page"' if is_here else ""
