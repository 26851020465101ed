"""Moves the tests onto the names of the wheel, so that they test what is installed (docs/adr/0071-one-name.md).

In a test a string may name a room, such as the attribute that it replaces. So strings are moved here, too.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import Final

from scripts.one_name import PACKAGE, ROOMS, named_modules, rewritten_imports

__all__ = ["move_tests", "moved"]

_MOVED: Final = ("tests", "scripts", "benchmarks", "examples")
_KEPT: Final = (
    "docs",
    "openapi",
    "sdk",
    "deploy",
    "requirements",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
_REFUSING: Final = 'raise ImportError("a room of the checkout was imported, not the one that is installed")\n'


def moved(source: str, file: str, root: Path) -> str:
    """Return the text of a test with its imports and its strings moved."""
    text = rewritten_imports(source, file)
    places = {
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(text, file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    lines = text.splitlines(keepends=True)
    for number in sorted({line for first, last in places for line in range(first, last + 1)}):
        line = lines[number - 1]
        for name in sorted(set(named_modules(line, root)), key=len, reverse=True):
            if f"{PACKAGE}.{name}" not in line:
                line = line.replace(name, f"{PACKAGE}.{name}")
        lines[number - 1] = line
    return "".join(lines)


def move_tests(root: Path, target: Path) -> None:
    """Write the tests, and the files that they read, into a folder where no room of the checkout can be imported."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", ".venv")
    for name in (*_MOVED, *_KEPT):
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, ignore=ignore)
        else:
            shutil.copy(root / name, target / name)
    for folder in _MOVED:
        for path in sorted((target / folder).rglob("*.py")):
            path.write_text(moved(path.read_text("utf-8"), str(path.relative_to(target)), root), encoding="utf-8")
    for room in ROOMS:
        shutil.copytree(root / room, target / room, ignore=ignore)
        (target / room / "__init__.py").write_text(_REFUSING, encoding="utf-8")
