"""The texts of a file that a person reads: docstrings, comments, and the blocks of a page."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_STRING_OR_COMMENT = re.compile(
    r"""(?s)"{3}(?:[^"\\]++|\\.|"(?!""))*"{3}|'{3}(?:[^'\\]++|\\.|'(?!''))*'{3}"""
    r"""|"(?:[^"\\]++|\\.)*"|'(?:[^'\\]++|\\.)*'|#([^\n]*)"""
)


class Text(NamedTuple):
    """One docstring, block of comments, or page, and the line where it begins."""

    line: int
    text: str


@cache
def source(path: Path) -> str:
    """Return the content of a file."""
    return path.read_text(encoding="utf-8")


def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module; nobody keeps it, since a thousand of them would slow the collector down."""
    return ast.parse(source(path))


def texts(path: Path) -> list[Text]:
    """Return the prose of a Python module, an SQL file or a page."""
    if path.suffix == ".py":
        return [*docstrings(path), *comments(path)]
    return [*comments(path)] if path.suffix == ".sql" else [Text(1, source(path))]


@cache
def docstrings(path: Path) -> tuple[Text, ...]:
    """Return docstrings, also those below a field or a constant."""
    return tuple(_docstrings(tree(path)))


def _docstrings(node: ast.AST) -> Iterator[Text]:
    for field in ("body", "orelse", "handlers", "finalbody"):
        for statement in getattr(node, field, ()):
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Text(value.lineno, value.value)
            yield from _docstrings(statement)


def comments(path: Path) -> Iterator[Text]:
    """Yield comments; the lines of one block are one text."""
    block: list[str] = []
    begin = last = 0
    for number, before, text in _comment_lines(path):
        names_statement = text.startswith(" name: ")
        if block and (number != last + 1 or before.strip() or not text.strip() or names_statement):
            yield Text(begin, "\n".join(block))
            block = []
        if not names_statement:
            begin = begin if block else number
            block.append(text.strip())
            last = number
    if block:
        yield Text(begin, "\n".join(block))


def _comment_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield number of the line, code before the comment, and comment."""
    if path.suffix == ".sql":
        for number, line in enumerate(source(path).splitlines(), 1):
            before, mark, comment = line.partition("--")
            if mark and "'" not in before:
                yield number, before, comment
        return
    text = source(path)
    for found in _STRING_OR_COMMENT.finditer(text):
        if found[1] is not None:
            begin = text.rfind("\n", 0, found.start()) + 1
            yield text.count("\n", 0, begin) + 1, text[begin : found.start()], found[1]


def without_listings(page: str) -> str:
    """Return a page without its blocks of code; the number of lines is kept."""
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), page)
