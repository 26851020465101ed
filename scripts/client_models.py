"""Write the SDK's models: a frozen dataclass for each kind of answer. Used by ``scripts/client_nouns.py``."""

from __future__ import annotations

from typing import Any

from scripts.client_nouns import SCHEMAS, annotation_of, methods, model_name, resolved, safe

__all__ = ["models_text"]

_SECRETS = {"secret", "private_key", "token"}


def models_text() -> str:
    """Return the module of the models."""
    wanted: dict[str, None] = {}
    for method in methods():
        for name in method.result.split(" | "):
            if name.startswith("models."):
                _want(name.removeprefix("models."), wanted)
    names = sorted(wanted)
    listed = "".join(f'    "{name}",\n' for name in names)
    head = f'''"""What the hub answers with: a frozen dataclass for each kind. Written by ``scripts/client_nouns.py``.

Members that a newer hub adds are in ``extra``. Moments are aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from hookwire.model import Model

__all__ = [
{listed}]
'''
    return "\n\n".join([head, *(_model(name) for name in _ordered(names))])


def _schema_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMAS.get(f"{name}Out") or SCHEMAS[name]
    return found


def _want(name: str, wanted: dict[str, None]) -> None:
    if name in wanted:
        return
    wanted[name] = None
    for member in _schema_of(name)["properties"].values():
        for inner in _references(member):
            _want(inner, wanted)


def _references(schema: dict[str, Any]) -> list[str]:
    if "$ref" in schema:
        return [model_name(schema["$ref"])] if resolved(schema).get("properties") else []
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return [name for one in inner for name in _references(one)]


def _ordered(names: list[str]) -> list[str]:
    """Return the names so that each comes after those that it holds."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        for member in _schema_of(name)["properties"].values():
            for inner in _references(member):
                visit(inner)
        done.append(name)

    for name in names:
        visit(name)
    return done


def _model(name: str) -> str:
    schema = _schema_of(name)
    needed = set(schema.get("required", ()))
    nested, moments, lines = {}, [], []
    for member, inner in schema["properties"].items():
        annotation = annotation_of(inner, models=True)
        if found := _references(inner):
            nested[member] = found[0]
        if "datetime" in annotation:
            moments.append(member)
        is_secret = member in _SECRETS or (name == "KeyCreated" and member == "key")
        default = "" if member in needed else "default=None"
        options = ", ".join(filter(None, (default, "repr=False" if is_secret else "")))
        if default and "None" not in annotation and annotation != "Any":
            annotation += " | None"
        lines.append(f"    {safe(member)}: {annotation}" + (f" = field({options})" if options else ""))
    words = (schema.get("description") or name).split(". ")[0].rstrip(".")
    text = [f'@dataclass(frozen=True, kw_only=True)\nclass {name}(Model):\n    """{words}."""\n']
    if nested:
        inside = ", ".join(f'"{member}": {kind}' for member, kind in nested.items())
        text.append(f"    nested: ClassVar[Mapping[str, type[Model]]] = {{{inside}}}")
    if moments:
        inside = ", ".join(f'"{member}"' for member in moments)
        text.append(f"    moments: ClassVar[frozenset[str]] = frozenset({{{inside}}})")
    return "\n".join([*text, *lines]) + "\n"
