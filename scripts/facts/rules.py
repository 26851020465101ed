"""The rules: each is a function from a file to its findings, as line and text."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Final

from scripts.facts import names
from scripts.facts.files import FROZEN, GENERATED, ROOT, all_files, is_product
from scripts.facts.texts import docstrings, source, texts, without_listings

Finding = tuple[int, str]

WORDS_MAX: Final = 25
_ID = re.compile(r"(?<![\w./#-])(?:[A-Z]{2,3}-[A-Z]?\d{1,3}[a-z]?|B-\d{2}|F\d{2}|[IT]\d{1,2})(?![\w-])")
_CHECK = re.compile(r"(?<=Check\(\")[A-Z]{2}-\d{2}(?=\")")
_ROW = re.compile(r"^\| ([A-Z]{1,3}-?[A-Z]?\d+[a-z]?)(?: [a-z])? \|", re.MULTILINE)
_STANDARD = re.compile(r"(CRC|UTF|SHA|SSH|KIP|ISO|RFC|AES|HMAC|TLS|UTC|AMQP|HTTP)-?\d+")
_TERM = re.compile(r"^\| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
_PURPOSE = re.compile(r"""(?:\s|#.*\n)*[rR]?["']""")
_DRAWING = re.compile(r"\S {3,}\S|--[->+]|[|│├└^']\s*$|^\s*[|+'│├└^]|::$")
_ITEM = re.compile(r"\s*(?:[*-] |\d+\. |`*[\w<>/.*-]+`*:\s)")
_NO_PROSE = re.compile(r"<!--.*?-->", re.DOTALL)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=#)|(?<=\n)(?=\|)|(?<!\\)\|")
_END = re.compile(r"(?<=[.!?])[)\"]?\s+")
_END_ON_PAGE = re.compile(r"(?<=[.!?:;])[\"')*\]]*\s+")
LONG: Final = ("**Rv** River", "*app speaks")
"""How a list of abbreviations, and a clause for each room, begin."""


def findings(name: str, *, is_changed: bool) -> list[str]:
    """Return the findings of one file."""
    if not name.endswith((".py", ".sql", ".md")) or name.startswith((*GENERATED, *FROZEN)):
        return []
    rules = [missing_purposes, long_sentences, undefined_ids, missing_names, ambiguous_classes]
    rules += [ids_in_product] if is_changed else []
    return [f"{name}:{line}: {found}" for rule in rules for line, found in rule(name)]


# --- prose ------------------------------------------------------------------------------------------------------


def missing_purposes(name: str) -> Iterator[Finding]:
    """Yield a module without a docstring, and an SQL file without a comment."""
    text = source(ROOT / name)
    if name.endswith(".py") and text.strip() and not name.startswith("tests/") and not _PURPOSE.match(text):
        yield 1, "no docstring says what the module is for"
    elif name.endswith(".sql") and is_product(name) and not text.startswith("--"):
        yield 1, "no comment says what the file is for"


def long_sentences(name: str) -> Iterator[Finding]:
    """Yield each sentence of a docstring, an SQL comment or a page with more than 25 words. Decisions stay."""
    if name.startswith(("tests/", "docs/adr/", "docs/conformance/", "benchmarks/results/")):
        return
    path = ROOT / name
    for line, text in docstrings(path) if name.endswith(".py") else texts(path):
        for sentence in page_sentences(text) if name.endswith(".md") else sentences(text):
            count = sum(bool(re.search(r"\w", word)) for word in sentence.split())
            if count > WORDS_MAX and not sentence.startswith(LONG):
                yield line, f"{count} words: {sentence[:60]}"


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring; drawings are left out, an item of a list begins a new sentence."""
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_drawing = _DRAWING.search(line)
        if not line.strip() or is_drawing or _ITEM.match(line):
            yield from _END.split(" ".join(paragraph))
            paragraph = []
        if line.strip() and not is_drawing:
            paragraph.append(line.strip())


def page_sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page; a span of code is one word, a cell of a table is a text."""
    for block in _BLOCK.split(_NO_PROSE.sub("", without_listings(page))):
        text = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", " ".join(block.split())))
        yield from _END_ON_PAGE.split(text)


# --- one meaning, and what exists -------------------------------------------------------------------------------


def ambiguous_classes(name: str) -> Iterator[Finding]:
    """Yield each public class whose name another file of the hub's distribution uses, if no page says why."""
    for line, found in _classes(name):
        others = [place for place in places()[found] if place != name]
        if others and found not in two_meanings():
            yield line, f"the class name {found} has a meaning in {others[0]} already (docs/glossary.md)"


def _classes(name: str) -> list[tuple[int, str]]:
    if not name.endswith(".py") or not is_product(name) or name.startswith("sdk/"):
        return []
    text = source(ROOT / name)
    return [(text.count("\n", 0, one.start()) + 1, one[1]) for one in re.finditer(r"(?m)^class ([A-Z]\w*)", text)]


@cache
def places() -> dict[str, list[str]]:
    places = defaultdict(list)
    for name in all_files():
        for _, found in _classes(name):
            places[found].append(name)
    return places


@cache
def two_meanings() -> frozenset[str]:
    """Return the class names that the glossary lists with two meanings."""
    section = source(ROOT / "docs/glossary.md").partition("## Class names with two meanings")[2]
    return frozenset(term.strip("`") for term in _TERM.findall(section))


def missing_names(name: str) -> Iterator[Finding]:
    """Yield each name that does not exist. A decision tells of its own day, and so does the log of changes."""
    if name.startswith(("docs/adr/", "CHANGELOG.md")):
        return
    for begin, text in texts(ROOT / name):
        yield from ((begin, found) for found in names.missing_names(name, text))


@cache
def defined_ids() -> frozenset[str]:
    """Return the ids that a row of docs/conformance defines."""
    pages = (ROOT / "docs/conformance").glob("*.md")
    return frozenset(found for page in pages for found in _ROW.findall(source(page)))


def ids(text: str) -> set[str]:
    """Return the ids that a text cites."""
    return {found for found in _ID.findall(text) if not _STANDARD.fullmatch(found)}


def undefined_ids(name: str) -> Iterator[Finding]:
    """Yield each id that no page defines."""
    for found in sorted(ids(source(ROOT / name)) - defined_ids()):
        yield 1, f"no row of docs/conformance defines {found}"


def ids_in_product(name: str) -> Iterator[Finding]:
    """Yield the ids of a product file that changes: tests cite them, the product says what it does.

    The name of a check of `hookwire doctor` looks like an id, and is none.
    """
    if is_product(name) and (found := ids(_CHECK.sub("", source(ROOT / name)))):
        yield 1, f"the file changes: remove its ids ({', '.join(sorted(found))})"
