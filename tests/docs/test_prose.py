"""Pages are plain: a sentence has one idea and at most 25 words (HO-06). Decisions stay as they were written."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS_MAX = 25
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "README.md", *sorted((ROOT / "benchmarks" / "profiles").glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in ("conformance", "adr")),
]  # fmt: skip
EXCEPTIONS = {
    "**Rv** River": "a list of names and their abbreviations",
    "*app speaks": "one clause for each room",
}
"""How a longer sentence begins, and why it may stay."""

_LEFT_OUT = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=#)|(?<=\n)(?=\|)|(?<!\\)\|")
_END = re.compile(r"(?<=[.!?:;])[\"')*\]]*\s+")


def long_sentences(text: str) -> Iterator[str]:
    """Yield each sentence with more words than allowed. A code span is one word; a cell of a table is a text."""
    for block in _BLOCK.split(_LEFT_OUT.sub("", text)):
        plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", re.sub(r"\s+", " ", block).strip()))
        for sentence in _END.split(plain):
            if len(re.findall(r"\w[\w'’/.-]*", sentence)) > WORDS_MAX and not sentence.startswith(tuple(EXCEPTIONS)):
                yield sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_sentence_of_a_page_has_25_words_at_most(page: Path) -> None:
    assert list(long_sentences(page.read_text(encoding="utf-8"))) == []


WORDS = " ".join(["word"] * WORDS_MAX)


@pytest.mark.parametrize("text", [f"{WORDS} more.", f"- {WORDS} more", f"| {WORDS} more | x |", f"A.\n\n{WORDS} more"])
def test_a_planted_long_sentence_is_found(text: str) -> None:
    assert len(list(long_sentences(text))) == 1


@pytest.mark.parametrize("text", [f"{WORDS}. {WORDS}.", f"```\n{WORDS} more\n```", f"`{WORDS} more`"])
def test_two_sentences_and_code_are_no_long_sentence(text: str) -> None:
    assert list(long_sentences(text)) == []
