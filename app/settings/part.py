"""The base of the parts of `app.settings.settings.Settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["SettingsPart"]


class SettingsPart(BaseModel):
    """Some of the settings. Only the whole is ever read, so pydantic builds no validator of a part."""

    model_config = ConfigDict(defer_build=True)
