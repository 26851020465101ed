"""Moves the tests onto the names of the wheel, so that they test what is installed (docs/adr/0071-one-name.md).

In a test a string may name a room, such as the attribute that it replaces. So strings are moved here, too.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from token import tok_name
from tokenize import generate_tokens
from typing import Final

from scripts.one_name import PACKAGE, ROOMS, named_modules, rewritten_imports

__all__ = ["move_tests", "moved"]

_STRINGS: Final = ("STRING", "FSTRING_MIDDLE")
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
    "SECURITY.md",
    "Makefile",
)
_REFUSING: Final = 'raise ImportError("a room of the checkout was imported, not the one that is installed")\n'


def moved(source: str, file: str, root: Path) -> str:
    """Return the text of a test with its imports and its strings moved."""
    lines = rewritten_imports(source, file).splitlines(keepends=True)
    tokens = [token for token in generate_tokens(iter(lines).__next__) if tok_name[token.type] in _STRINGS]
    for token in reversed(tokens):
        (first, start), (last, end) = token.start, token.end
        head, tail = lines[first - 1][:start], lines[last - 1][end:]
        lines[first - 1 : last] = (head + _renamed(token.string, root) + tail).splitlines(keepends=True)
    return "".join(lines)


def _renamed(text: str, root: Path) -> str:
    """Return a string's text with the modules that it names; expressions of an f-string stay."""
    code = r"\{[^{}]*\}|" if "f" in text.partition(text[-1])[0].lower() else ""
    names = sorted(set(named_modules(text, root)), key=len, reverse=True)
    if not names:
        return text
    found = re.compile(rf"{code}(?<![\w.])(?:{'|'.join(map(re.escape, names))})(?!\w)")
    return found.sub(lambda match: match[0] if match[0].startswith("{") else f"{PACKAGE}.{match[0]}", text)


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
