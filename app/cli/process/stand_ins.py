"""Stand-ins: parts of libraries that the command never uses, and that would be a tenth of what a start imports."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["put_stand_ins"]


def put_stand_ins() -> None:
    """Put them in the place of modules that nothing has imported yet.

    * httpx imports its own command, with rich, pygments and click. Without it, httpx has other code.
    * uvicorn imports its own command, with click, and the watch of changed files. We build the server from code.
    * pydantic asks each installed distribution for plugins, and imports the reader of their metadata. We use none.
    """
    _put("httpx._main", None)
    _put("uvicorn.main", _module("uvicorn.main", Server=None, main=None, run=None))
    _put("pydantic.plugin._loader", _module("pydantic.plugin._loader", get_plugins=tuple))


def _put(name: str, module: ModuleType | None) -> None:
    sys.modules.setdefault(name, module)  # type: ignore[arg-type]  # None: it cannot be imported


def _module(name: str, **contents: object) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(contents)
    return module
