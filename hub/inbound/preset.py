"""Preset: what is known about a sender, from ``presets.json``. A door's settings replace single parts of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from hub.inbound.scheme import SignatureScheme

__all__ = ["PRESETS", "SENDER_HEADERS", "Example", "Handshake", "Preset"]


@dataclass(frozen=True, slots=True)
class Handshake:
    """A request that is no event: the text at ``at`` is ``is_text``. ``answer`` is where the body of the answer is."""

    at: str
    is_text: str
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A request of this sender, not signed."""

    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What is known about a sender. ``ids`` and ``types`` are references, of which the first with a text counts.

    ``remember_seconds`` is longer than this sender repeats a delivery. ``sender_makes_secret``: a person copies the
    secret from the sender, so the hub cannot make one.
    """

    title: str
    scheme: Mapping[str, Any]
    example: Example
    ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    handshake: Handshake | None = None
    remember_seconds: int
    sender_makes_secret: bool = False
    vectors: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the headers that tell this sender from others."""
        references = (*self.ids, *self.types)
        named = {one.partition(":")[2] for one in references if one.startswith("header:")}
        return SignatureScheme(**self.scheme).headers | named | frozenset(self.headers)


def _preset(facts: dict[str, Any]) -> Preset:
    handshake, example = facts.get("handshake"), facts["example"]
    return Preset(
        title=facts["title"],
        scheme=facts["scheme"],
        example=Example(example["headers"], example["body"]),
        ids=tuple(facts.get("id", ())),
        types=tuple(facts.get("type", ())),
        headers=tuple(facts.get("headers", ())),
        handshake=handshake and Handshake(handshake["at"], handshake["is"], handshake.get("answer")),
        remember_seconds=facts["remember_seconds"],
        sender_makes_secret=facts.get("sender_makes_secret", False),
        vectors=tuple(facts["vectors"]),
    )


def _read() -> dict[str, Preset]:
    text = files(__package__).joinpath("presets.json").read_text(encoding="utf-8")
    return {name: _preset(facts) for name, facts in json.loads(text).items()}


PRESETS: Final[Mapping[str, Preset]] = _read()
SENDER_HEADERS: Final[Mapping[bytes, str]] = {
    header.encode(): name
    for name, preset in reversed(list(PRESETS.items()))
    for header in preset.names - {"idempotency-key", "x-signature"}
}
"""Headers by which a sender is known, each with the preset that reads it."""
