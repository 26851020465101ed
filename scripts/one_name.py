"""Moves the rooms into the package ``hookwire_server``, which is all that the wheel holds (docs/adr/0071-one-name.md).

Imports are rewritten where they stand, so every line keeps its number. Strings are not rewritten. One that names a
module of ours would be wrong in the wheel, so it is refused with its file and line.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["PACKAGE", "ROOMS", "NamedRoom", "move", "named_modules", "rewritten", "rewritten_imports"]

PACKAGE: Final = "hookwire_server"
ROOMS: Final = (
    "app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline",
)  # fmt: skip
_FOLDERS: Final = (*ROOMS, "openapi")
_ROOM: Final = "|".join(ROOMS)
_MODULE: Final = re.compile(rf"(?<![\w./:-])(?:{_ROOM})(?:\.\w+)+")
_STATEMENT: Final = re.compile(rf"(?:^|\n)\s*(?:import|from)\s+(?:{_ROOM})\b")
_BY_NAME: Final = {"import_module", "__import__", "files", "find_spec", "run_module", "getLogger", "get_logger"}
_WORDS: Final = {"hub.content", "hub.publish"}
"""Words of the protocols that are modules of ours too: a parameter of WebSub, and a service."""


class NamedRoom(Exception):
    """A string names a module of ours; the text has its file and line."""


def rewritten(source: str, file: str, root: Path) -> str:
    """Return the text with its imports moved; raises :class:`NamedRoom`."""
    _refuse_strings(ast.parse(source, file), file, root)
    return rewritten_imports(source, file)


def rewritten_imports(source: str, file: str) -> str:
    """Return the text with its imports moved, whatever its strings name."""
    tree = ast.parse(source, file)
    lines = source.encode().splitlines(keepends=True)
    places = sorted(_changes(tree), key=lambda change: change[:2], reverse=True)
    for line, start, end, text in places:
        old = lines[line - 1]
        lines[line - 1] = old[:start] + text.encode() + old[end:]
    return b"".join(lines).decode()


def move(root: Path, target: Path) -> None:
    """Write the package of the wheel into ``target``; raises :class:`NamedRoom`."""
    shutil.copytree(root / PACKAGE, target, ignore=_no_caches)
    for folder in _FOLDERS:
        shutil.copytree(root / folder, target / folder, ignore=_no_caches)
    for path in sorted(target.rglob("*.py")):
        name = path.relative_to(target).as_posix()
        file = f"{PACKAGE}/{name}" if "/" not in name else name
        path.write_text(rewritten(path.read_text(encoding="utf-8"), file, root), encoding="utf-8")


_no_caches: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


def _changes(tree: ast.Module) -> Iterator[tuple[int, int, int, str]]:
    """Yield line, first and last byte, and the new text of each import of a room."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_ours(node.module or ""):
            start = node.col_offset + len("from ")
            yield node.lineno, start, start + len(node.module or ""), f"{PACKAGE}.{node.module}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    yield alias.lineno, alias.col_offset, alias.end_col_offset or 0, _moved(alias)


def _moved(alias: ast.alias) -> str:
    """``import db.bound`` binds the room's name. So the room is bound by a second import on the same line."""
    if alias.asname:
        return f"{PACKAGE}.{alias.name} as {alias.asname}"
    room = alias.name.partition(".")[0]
    return f"{PACKAGE}.{alias.name}, {PACKAGE}.{room} as {room}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ROOMS


def _refuse_strings(tree: ast.Module, file: str, root: Path) -> None:
    documentation = set(_documentation(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in _BY_NAME:
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and _is_ours(str(argument.value)):
                    raise NamedRoom(f"{file}:{argument.lineno}: the string {argument.value!r} names a room")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation:
            for name in named_modules(node.value, root):
                raise NamedRoom(f"{file}:{node.lineno}: a string names a room: {name}")


def _documentation(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the strings that stand alone, which nothing reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def named_modules(text: str, root: Path) -> Iterator[str]:
    """Yield what reads like a module of ours and is one: ``hub.topic`` is a parameter of WebSub, and no module."""
    for found in _MODULE.finditer(text):
        room, part = found[0].split(".")[:2]
        if found[0] not in _WORDS and ((root / room / part).is_dir() or (root / room / f"{part}.py").is_file()):
            yield found[0]
    for statement in _STATEMENT.finditer(text):
        yield statement[0].strip()
