"""The base of the parts of `app.settings.settings.Settings`, and lists in a setting."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict

__all__ = ["COMMAS", "SettingsPart", "Texts"]


def _split(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


COMMAS: Final = BeforeValidator(_split)
"""Marks a list that a variable of the environment has as one text, with commas."""
Texts = Annotated[tuple[str, ...], COMMAS]


class SettingsPart(BaseModel):
    """Some of the settings. Only the whole is ever read, so pydantic builds no validator of a part."""

    model_config = ConfigDict(defer_build=True)
