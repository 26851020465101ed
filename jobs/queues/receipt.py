"""Receipts: a message and its claim, by which a receiver settles the message (JB-60)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["ClaimReceipt", "parse_receipt"]

Mode = Literal["move", "copy"]
_TEXT = re.compile(r"(msg|cpy)_([0-9]{1,18})_([0-9]{1,18})")
_WORDS: dict[Mode, str] = {"move": "msg", "copy": "cpy"}


@dataclass(frozen=True, slots=True)
class ClaimReceipt:
    """A message and the claim that holds it. In mode ``copy`` the claim covers its consumer's whole batch."""

    message_id: int
    claim: int
    mode: Mode = "move"

    def __str__(self) -> str:
        return f"{_WORDS[self.mode]}_{self.message_id}_{self.claim}"


def parse_receipt(text: str) -> ClaimReceipt | None:
    """Return the receipt in the text, or None if the text is not a receipt."""
    match = _TEXT.fullmatch(text)
    return ClaimReceipt(int(match[2]), int(match[3]), "move" if match[1] == "msg" else "copy") if match else None
