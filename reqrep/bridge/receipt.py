"""Receipts: the right of one claim to answer a request."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["RequestReceipt", "parse_receipt"]

_TEXT = re.compile(r"req_([0-9a-f]{32})_([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RequestReceipt:
    """A request's id (32 hexadecimal digits) and the fence of the claim that holds it."""

    request_id: str
    claim: int

    def __str__(self) -> str:
        return f"req_{self.request_id}_{self.claim}"


def parse_receipt(text: str) -> RequestReceipt | None:
    """Return the receipt in a text, or None if the text is not a receipt."""
    match = _TEXT.fullmatch(text)
    return RequestReceipt(match[1], int(match[2])) if match else None
