"""Writes `docs/reference/settings.md` from the fields of `app.settings.Settings`. A test proves it fresh."""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import PREFIX, Settings

SETTINGS_FILE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"

_HEAD = """\
# Settings

<!-- Written by scripts/settings_reference.py from app/settings.py, never by hand. -->

Every setting is an environment variable, or a line of a TOML file without the prefix and in lower case: `hookwire.toml`
in the working directory, or the file that `--config` or `HOOKWIRE_CONFIG` names. A variable wins over the file. A name
that does not exist is refused at the start, with the nearest one that does.

```toml
# hookwire.toml
listen = "127.0.0.1:9090"
database_url = "postgresql://hookwire:secret@db/hookwire"
egress_allow_cidrs = "10.1.0.0/16,10.2.0.0/16"
```

Lists are separated by commas. Times are in seconds, sizes in bytes. Passwords and keys appear in no log.

| Variable | Values | Default | Meaning |
|---|---|---|---|
"""


def text() -> str:
    """The page as it is checked in."""
    return _HEAD + "".join(f"{_row(name, field)}\n" for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{PREFIX}{name.upper()}`", _values(field), _default(name, field), field.description or "")
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(cell: str) -> str:
    for character in "|<*":
        cell = cell.replace(character, f"\\{character}")
    return cell


def _values(field: FieldInfo) -> str:
    kind = _plain(field.annotation)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "texts" if get_args(kind)[0] is str else "numbers"
    words = {bool: "`true`, `false`", int: "integer", float: "number", str: "text", Path: "folder", SecretStr: "secret"}
    return words[kind] + "".join(_bounds(field.metadata))


def _plain(kind: Any) -> Any:
    """The type without `| None`."""
    if get_origin(kind) in (Union, UnionType):
        return next(part for part in get_args(kind) if part is not NoneType)
    return kind


def _bounds(metadata: Iterable[object]) -> Iterable[str]:
    for bound in metadata:
        for name, words in (("ge", "at least"), ("le", "at most")):
            if hasattr(bound, name):
                yield f", {words} {getattr(bound, name):,}"


def _default(name: str, field: FieldInfo) -> str:
    if name == "data_dir":  # depends on the machine
        return "the user's state folder; `.hookwire/` with `make run`"
    value = field.default
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{','.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"


if __name__ == "__main__":
    SETTINGS_FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {SETTINGS_FILE.name}")
    sys.exit(0)
