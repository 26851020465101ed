"""Plain English in docstrings, comments and messages, as far as a program can see it (HO-06).

Each rule is a function from a text to its findings. A place that is not done yet stands in ``NOT_DONE``.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline", "sdk")
FOLDERS = (*ROOMS, "scripts", "examples", "benchmarks")
WORDS_MAX = 25

NOT_DONE = (
    "db/migrations/0001_publishing.sql",
    "db/schema.sql",
)
"""Files whose path begins so still hold findings. This list only shrinks: a place without findings has to leave it."""

_PERSONS = ("people", "person", "persons", "user", "users", "operator", "operators", "publisher", "subscriber")
_NO_PERSON = "".join(rf"(?<!\b{person} )" for person in _PERSONS)
_PREPOSITION = "of|by|from|with|than|for|to|about|in|on|at|after|before|behind|into|without|and|or|but|all|besides?"
_SENTENCE_START = r"(?:^|(?<=[.!?:;]\s))"
BANNED = {
    rf"{_NO_PERSON}\bwho(?:m|ever|mever)?\b": "name the subject",
    rf"{_SENTENCE_START}What\b(?! callbacks may reach$)[^?]*$": "name the thing, not `what`",
    rf"\b(?:{_PREPOSITION}) what\b": "name the thing instead of `what`",
    rf"{_SENTENCE_START}One (?:that|which|of|whose|with|without|in|by|from|for)\b": "name the thing, not `one`",
    r"\bone's own\b": "of its own",
    r"\bof (?:ours|yours|theirs)\b": "our, your, their",
    r"\b(?:is|are|was|were|be|been|being) told\b": "notify, receive, get",
    r"\b(?:nobody(?! listens)|somebody|anybody|everybody)\b": "name the process or the person",
    r"\bwhatever\b": "any, all, regardless of",
    r"\bon record\b": "stored",
    r"\bof late\b": "recently",
    r"\bdecision \d+\b": "cite the ADR",
    r"\bas (?:it|they) stands?\b": "unchanged",
    r"\b(?:so (?:many|much|long) at most|at most so many)\b": "the largest number of, and its unit",
    r"\bthis once\b": "only now",
    r"\bno use\b": "name the reason",
    r"\bis there twice\b": "name the place",
    r"\bwhere there is none\b": "if none exists",
    r"\b(?:doors?|bells?|knocks?|knocked|rung|reigns?|deposed?|lookout|hurry|bury|buried|furnish(?:es|ed)?)\b": (
        "the term of the glossary"
    ),
}
"""Pattern (case is ignored, but for the start of a sentence), and the cure."""
WHAT = re.compile(r"(?<!say )(?<!says )\bwhat (?!to do\b|callbacks may)[^?]*$", re.IGNORECASE)
"""`what` as a noun, which is no indirect question; held in the rooms, but for migrations that are never edited."""
FROZEN = tuple(f"db/migrations/000{number}_" for number in range(1, 8))
_ANY_BANNED = re.compile("|".join(BANNED), re.IGNORECASE)
"""A quick look that passes over most texts."""

NOT_A_VERB = frozenset(
    re.split(
        " ",
        "the a an all every each whether what who how where which why those some any no one several everything its "
        "their they it by to as up until without most our more none only from with here there these this such same "
        "both than then and or but if when because at about not",
    )
)
FRAGMENT = re.compile(
    r"(?:And|As|At most so|It|Its|None|Of|Only (?:of|those)|Or|So|Their|Then|These|They|Those|The same)\b(?! [A-Z])"
)
"""A help text or description that begins so has no object: the reader sees it without the text before it."""
TEXT_ARGUMENTS = ("description", "help", "summary")


class Prose(NamedTuple):
    """One docstring, comment or message."""

    line: int
    text: str


# --- texts of a file --------------------------------------------------------------------------------------------


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".py", ".sql"))


@cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(source(path))


def docstring(body: object) -> ast.Constant | None:
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def docstrings(path: Path) -> Iterator[Prose]:
    """Yield docstrings, also those below a field or a constant."""
    for node in ast.walk(tree(path)):
        body = getattr(node, "body", None)
        for position in range(len(body) if isinstance(body, list) else 0):
            if found := docstring(body[position:]):
                yield Prose(found.lineno, str(found.value))


def messages(path: Path) -> Iterator[Prose]:
    """Yield string constants of three words or more that are no docstring."""
    lines = {doc.line for doc in docstrings(path)}
    for node in ast.walk(tree(path)):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or node.lineno in lines:
            continue
        if len(re.findall(r"[A-Za-z]+\s+(?=[a-z])", node.value)) > 1:
            yield Prose(node.lineno, node.value)


def comments(path: Path) -> Iterator[Prose]:
    """Yield comments; lines of one block are one text."""
    if path.suffix == ".sql":
        found = [(number, line.split("--", 1)) for number, line in enumerate(source(path).splitlines(), 1)]
        lines = [(number, parts[0], parts[1]) for number, parts in found if len(parts) == 2 and "'" not in parts[0]]
    else:
        tokens = tokenize.generate_tokens(io.StringIO(source(path)).readline)
        lines = [(t.start[0], t.line[: t.start[1]], t.string[1:]) for t in tokens if t.type == tokenize.COMMENT]
    block: list[str] = []
    begin = last = 0
    for number, before, text in lines:
        if block and (number != last + 1 or before.strip() or not text.strip() or text.startswith(" name: ")):
            yield Prose(begin, "\n".join(block))
            block = []
        if not block:
            begin = number
        if text.startswith(" name: "):
            continue
        block.append(text.strip())
        last = number
    if block:
        yield Prose(begin, "\n".join(block))


# --- rules ------------------------------------------------------------------------------------------------------


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text; drawings and listings are left out, an item of a list begins a new sentence."""
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_drawing = re.search(r"\S {3,}\S|--[->+]|[|│├└^']\s*$|^\s*[|+'│├└^]|::$", line)
        begins_item = re.match(r"\s*(?:[*-] |\d+\. |`*[\w<>/.*-]+`*:\s)", line)
        if not line.strip() or is_drawing or begins_item:
            yield from re.split(r"(?<=[.!?])[)\"]?\s+", " ".join(paragraph))
            paragraph = []
        if line.strip() and not is_drawing:
            paragraph.append(line.strip())


def long_sentences(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > WORDS_MAX:
            yield f"{len(words)} words: {sentence[:60]}"


def banned_words(text: str) -> Iterator[str]:
    if not _ANY_BANNED.search(" ".join(text.split())):
        return
    for pattern, instead in BANNED.items():
        for sentence in sentences(text):
            flags = 0 if "^" in pattern else re.IGNORECASE
            if found := re.search(pattern, sentence, flags):
                yield f"{found[0][:30]!r}: {instead}"


def nouns_for_verbs(path: Path) -> Iterator[Prose]:
    """Yield docstrings of functions that do not begin with a verb; a route's is its description in the API."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_route = any("router." in ast.unparse(decorator) for decorator in node.decorator_list)
        if not is_route and (found := docstring(node.body)):
            first = re.match(r"\w*", str(found.value))
            if first and (first[0].lower() in NOT_A_VERB or str(found.value).startswith("`")):
                yield Prose(found.lineno, str(found.value))


def nouns_what(path: Path, text: str) -> Iterator[str]:
    if path.is_relative_to(ROOT) and (not named(path).startswith(ROOMS) or named(path).startswith(FROZEN)):
        return
    for sentence in sentences(text):
        if found := WHAT.search(sentence):
            yield f"{found[0][:30]!r}: name the thing, not `what`"


def classes_without_a_noun(path: Path) -> Iterator[Prose]:
    """Yield docstrings of classes that begin with a parameter and so do not say what the object is."""
    for node in ast.walk(tree(path)):
        found = docstring(node.body) if isinstance(node, ast.ClassDef) else None
        if found and str(found.value).startswith("`"):
            yield Prose(found.lineno, str(found.value))


def fragments(path: Path) -> Iterator[Prose]:
    """Yield help texts, and descriptions of the API, that begin without an object."""
    for node in ast.walk(tree(path)):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.keyword) and node.arg in TEXT_ARGUMENTS:
            values = [node.value]
        elif isinstance(node, ast.Dict):
            items = zip(node.keys, node.values, strict=True)
            values = [value for key, value in items if isinstance(key, ast.Constant) and key.value in TEXT_ARGUMENTS]
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and FRAGMENT.match(value.value):
                yield Prose(value.lineno, value.value)


@cache
def findings(path: Path) -> tuple[str, ...]:
    return tuple(_findings(path))


def _findings(path: Path) -> Iterator[str]:
    is_python = path.suffix == ".py"
    if is_python and source(path).strip() and ast.get_docstring(tree(path)) is None:
        yield "1: no docstring says what the module is for"
    if not is_python and not source(path).startswith("--"):
        yield "1: no comment says what the file is for"
    long = [*docstrings(path)] if is_python else [*comments(path)]
    for prose in long:
        yield from (f"{prose.line}: {finding}" for finding in long_sentences(prose.text))
    for prose in [*long, *([*comments(path), *messages(path)] if is_python else [])]:
        banned = [*banned_words(prose.text)]
        yield from (f"{prose.line}: {finding}" for finding in banned or nouns_what(path, prose.text))
    if is_python:
        yield from (f"{prose.line}: begin with a verb: {prose.text[:40]!r}" for prose in nouns_for_verbs(path))
        yield from (f"{prose.line}: say what it is: {prose.text[:40]!r}" for prose in classes_without_a_noun(path))
        yield from (f"{prose.line}: name the object: {prose.text[:40]!r}" for prose in fragments(path))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_done(name: str) -> bool:
    return not name.startswith(NOT_DONE)


# --- tests ------------------------------------------------------------------------------------------------------


def test_texts_are_plain_english() -> None:
    """HO-06."""
    assert [f"{named(path)}:{found}" for path in files() if is_done(named(path)) for found in findings(path)] == []


def test_a_place_without_findings_leaves_the_list() -> None:
    """HO-06: the list of places that are not done only shrinks."""
    left = {place for place in NOT_DONE for path in files() if named(path).startswith(place) and any(findings(path))}
    assert set(NOT_DONE) - left == set()


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.py", "def f():\n    pass\n", "1: no docstring"),
        ("a.sql", "SELECT 1;\n", "1: no comment"),
        ("a.py", f'"""{"word " * 26}."""\n', "1: 26 words"),
        ("a.py", f'"""Short.\n\nAttributes:\n    name: {"word " * 25}.\n"""\n', "1: 26 words"),
        ("a.sql", f"-- {'word ' * 13}\n-- {'word ' * 13}.\n", "1: 26 words"),
        ("a.py", '"""Notify whoever waits."""\n', "1: 'whoever'"),
        ("a.py", '"""Short."""\n# Who waits gets it.\n', "2: 'Who'"),
        ("a.py", '"""Short."""\nX = f"the queue {1} is told about it"\n', "2: 'is told'"),
        ("a.sql", "-- Short.\nSELECT 1; -- What is left.\n", "2: 'What is left.'"),
        ("a.py", '"""Short. One that waits is parked."""\n', "1: 'One that'"),
        ("a.py", '"""Return a lease of ours."""\n', "1: 'of ours'"),
        ("a.py", '"""Short."""\ndef f():\n    """The first row."""\n', "3: begin with a verb"),
        ("a.py", '"""Short."""\ndef f():\n    """By name, the rows."""\n', "3: begin with a verb"),
        ("a.py", '"""Short."""\ndef f():\n    """``rows``, oldest first."""\n', "3: begin with a verb"),
        ("a.py", '"""Short."""\nclass C:\n    """``rows``: those of a page."""\n', "3: say what it is"),
        ("a.py", '"""Short."""\nX = Option(help="Of the message.")\n', "2: name the object"),
        ("a.py", '"""Short."""\nX = Field(description="As `topics`.")\n', "2: name the object"),
        ("a.py", '"""Short."""\nX = Option(help="Show so many at most.")\n', "2: 'so many at most'"),
        ("a.py", '"""Return the key, shown this once."""\n', "1: 'this once'"),
        ("a.py", '"""Short."""\n# The text is sent as it stands.\n', "2: 'as it stands'"),
        ("a.py", '"""Short."""\n# It is no use to repeat it.\n', "2: 'no use'"),
        ("a.py", '"""Short."""\nX = "the key is there twice"\n', "2: 'is there twice'"),
        ("a.sql", "-- Return NULL where there is none.\nSELECT 1;\n", "1: 'where there is none'"),
        ("a.py", '"""Return what the worker holds."""\n', "1: 'what the worker holds.'"),
    ],
)
def test_a_planted_break_is_found(
    name: str, text: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HO-06."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert [found[: len(finding)] for found in findings(tmp_path / name)] == [finding]


@pytest.mark.parametrize(
    "text",
    [
        '"""Return the first row.\n\nAn operator who reads this may say what is wrong.\n"""\n',
        '"""Draw::\n\n    down -----> up   ' + "word " * 30 + '\n"""\n',
    ],
)
def test_plain_text_and_drawings_pass(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    assert [*findings(tmp_path / "a.py")] == []
