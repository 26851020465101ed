"""Remarks: a worker's own text on its work, such as the error of a failed attempt. None is refused.

A worker that cannot report a failure loses its lease instead, and the work is repeated as that of a dead worker. So the
text of an error is cut and cleaned, whatever it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from event.json_places import member_places
from event.strict_json import LENIENT, check_shape, storable_text

__all__ = ["REMARK_RULE", "Remark", "remarks_of", "with_remarks"]

REMARK_RULE: Final = "It is cut to its first characters; U+0000 becomes U+FFFD, and any other JSON value its text."


@dataclass(frozen=True, slots=True)
class Remark:
    """Marks a member of a body as a remark of at most ``characters_max`` characters."""

    characters_max: int

    def text_of(self, value: Any) -> str | None:
        """Return the value as text that can be stored; null stays null."""
        if value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return storable_text(text[: self.characters_max])

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate the text of the value, which has a length that is allowed."""
        return core_schema.no_info_before_validator_function(self.text_of, handler(source))


def remarks_of(model: Any) -> dict[str, Remark]:
    """Return the remarks among the members of a body's model, by name."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    return {
        name: mark
        for name, member in model.model_fields.items()
        for mark in member.metadata
        if isinstance(mark, Remark)
    }


def with_remarks(body: bytes, remarks: Mapping[str, Remark]) -> bytes | None:
    """Return the body with remarks that can be read strictly, or None if it has no remark or is no JSON object.

    Every other byte stays, so that the strict reader still judges it.
    """
    try:
        check_shape(body.decode("utf-8", "replace"))
        places = [place for place in member_places(body) if place[0] in remarks]
        pieces, last = [], 0
        for name, start, end in places:
            value = LENIENT.decode(body[start:end].decode("utf-8", "replace"))
            pieces += [body[last:start], json.dumps(remarks[name].text_of(value)).encode()]
            last = end
    except (ValueError, RecursionError):
        return None
    return b"".join([*pieces, body[last:]]) if places else None
