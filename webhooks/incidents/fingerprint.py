"""Fingerprint: the cause of a failed attempt, without the parts that differ from one attempt to the next. Pure.

Class and status stay as they are. Of the answer, or else of the reason why there is none, 80 characters stay. Tags,
identifiers, moments, tokens and numbers are replaced before. Only the first 4,096 bytes are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from webhooks.outcome import Outcome

__all__ = ["EXCERPT_MAX", "Fingerprint", "fingerprint_of", "reduced"]

EXCERPT_MAX: Final = 80
_READ_BYTES_MAX: Final = 4_096
_DIGEST_BYTES: Final = 16
_LONG: Final = 32
"""A word of so many letters is no word of a language, but a token."""
_SHORT_TOKEN: Final = 20
_MIXED_MIN: Final = 8

# Each pattern repeats one class of characters and never a group, so that it takes linear time.
_REDUCED: Final[Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]] = (
    (re.compile(r"<(?:style|script)\b[^<]*"), " "),
    (re.compile(r"<[/!?a-zA-Z][^<>]*>?"), " "),
    (re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]?[0-9:.,]*(?:Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?"), "TIME"),
    (re.compile(r"[A-Za-z0-9_+/=~.@%-]+"), lambda match: _word(match[0])),
    (re.compile(r"\d+"), "N"),
    (re.compile(r"[^ -~\u00a0-\ud7ff\ue000-\ufffc]+"), " "),
    (re.compile(r"\s+"), " "),
)  # fmt: skip
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class Fingerprint(NamedTuple):
    """What identifies a cause at one subscription. ``excerpt`` has at most 80 characters."""

    outcome: str
    status: int | None
    excerpt: str

    @property
    def digest(self) -> str:
        """Return 32 hexadecimal digits of SHA-256 over the three parts."""
        text = f"{self.outcome}\0{self.status or ''}\0{self.excerpt}"
        return sha256(text.encode()).digest()[:_DIGEST_BYTES].hex()


def fingerprint_of(outcome: Outcome) -> Fingerprint:
    """Return the fingerprint of a failed attempt: of its answer, or of its reason if there is no answer."""
    text = outcome.body[:_READ_BYTES_MAX].decode("utf-8", "replace") if outcome.body else outcome.detail or ""
    return Fingerprint(outcome.kind, outcome.status, reduced(text))


def reduced(text: str) -> str:
    """Return the first 80 characters of a text without what differs each time."""
    text = text[:_READ_BYTES_MAX]
    for pattern, replacement in _REDUCED:
        text = pattern.sub(replacement, text)
    return text.strip()[:EXCERPT_MAX].rstrip()


def _word(word: str) -> str:
    """Return a word of a language as it is, ADDRESS for one of mail, and TOKEN for one that was made by a machine."""
    if "@" in word[1:-1]:
        return "ADDRESS"
    parts = re.split(r"[./_=~+-]", word)
    return "TOKEN" if _is_random(word) or any(len(part) >= _LONG or _is_mixed(part) for part in parts) else word


def _is_random(word: str) -> bool:
    """Return whether a long word has letters of both cases, and digits or no dots, as tokens in base64 have."""
    is_mixed = word != word.lower() and word != word.upper()
    has_digits = any(sign.isdigit() for sign in word)
    return is_mixed and ((len(word) >= _SHORT_TOKEN and has_digits) or (len(word) >= _LONG and "." not in word))


def _is_mixed(part: str) -> bool:
    """Return whether digits stand between letters, or it is hexadecimal: words have digits at their end."""
    if len(part) < _MIXED_MIN:
        return False
    letters = part.rstrip("0123456789").lstrip("0123456789")
    is_hexadecimal = _HEX.issuperset(part) and not part.isdigit() and any(sign.isdigit() for sign in part)
    return is_hexadecimal or any(sign.isdigit() for sign in letters)
