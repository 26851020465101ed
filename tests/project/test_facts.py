"""scripts/facts, which `make check` runs: each rule finds a planted fault, and the whole tree has none."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.facts import files, rules

ROOT = Path(__file__).parents[2]
WORDS = " ".join(["word"] * rules.WORDS_MAX)
ORDINARY = (ROOT / "tests/project/docstrings.txt").read_text("utf-8").splitlines()
UNKNOWN_SETTING = "HOOKWIRE_" + "NO_SUCH"

Plant = Callable[[str, str], list[str]]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return the findings of a file with a given text, as of a file that a branch changes."""
    rules.defined_ids(), rules.two_meanings(), rules.places()
    monkeypatch.setattr(rules, "ROOT", tmp_path)

    def findings(name: str, text: str) -> list[str]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return [found.removeprefix(f"{name}:") for found in rules.findings(name, is_changed=True)]

    return findings


def test_no_file_of_the_tree_has_a_finding() -> None:
    """HO-05, HO-06, HO-07, GH-02: sentences, purposes, classes, ids and names."""
    assert [found for name in files.all_files() for found in rules.findings(name, is_changed=False)] == []


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("hub/planted.py", "X = 1\n", "1: no docstring says"),
        ("hub/planted.py", 'X = 1\n"""The first number."""\n', "1: no docstring says"),
        ("db/sql/planted.sql", "SELECT 1;\n", "1: no comment says"),
        ("hub/planted.py", f'"""{WORDS} more."""\n', "1: 26 words"),
        ("hub/planted.py", f'"""Short.\n\nAttributes:\n    name: {WORDS}.\n"""\n', "1: 26 words"),
        ("hub/planted.py", f'"""Short."""\nX = 1\n"""{WORDS} more."""\n', "3: 26 words"),
        ("db/sql/planted.sql", f"-- {WORDS}\n-- more.\n", "1: 26 words"),
        ("docs/planted.md", f"A.\n\n{WORDS} more", "1: 26 words"),
        ("docs/planted.md", f"- {WORDS} more", "1: 26 words"),
        ("docs/planted.md", f"| {WORDS} more | x |", "1: 26 words"),
        ("tests/planted.py", f'"""{"QQ-" + "07"}."""\n', "1: no row of docs/conformance defines"),
        ("hub/planted.py", '"""Short (HO-05)."""\n', "1: the file changes: remove its ids (HO-05)"),
        ("hub/planted.py", '"""HO-05."""\nCheck("SC-18", "")\n', "1: the file changes: remove its ids (HO-05)"),
        ("hub/planted.py", '"""Short."""\n\nclass Harvester: ...\n', "3: the class name Harvester has a meaning"),
        ("hub/planted.py", '"""See relay/no_such.py."""\n', "1: no file relay/no_such.py"),
        ("hub/planted.py", '"""Short."""\n# See ``no_such.py``.\n', "2: no file no_such.py"),
        ("docs/planted.md", "See docs/how-to/no-such.md.", "1: no file docs/how-to/no-such.md"),
        ("hub/planted.py", '"""Call ``no_such()``."""\n', "1: no no_such()"),
        ("hub/planted.py", '"""Set ``no_such``."""\n', "1: no no_such"),
        ("hub/planted.py", '"""Call ``Harvester.no_such``."""\n', "1: no Harvester.no_such"),
        ("docs/planted.md", "Call `Harvester.no_such`.", "1: no Harvester.no_such"),
        ("db/sql/planted.sql", "-- Calls hookwire.no_such().\n", "1: no hookwire.no_such("),
        ("docs/planted.md", "Set `HOOKWIRE_PORT` or " + UNKNOWN_SETTING + ".", f"1: no setting {UNKNOWN_SETTING}"),
        ("docs/planted.md", "Run `hookwire nosuch`.", "1: no hookwire nosuch"),
        ("docs/planted.md", "Run `hookwire jobs nosuch 7`.", "1: no hookwire jobs nosuch"),
        ("docs/planted.md", "```sh\n.venv/bin/hookwire publish t --nosuch\n```\n", "1: no hookwire publish --nosuch"),
        ("docs/planted.md", "Run `make nosuch`.", "1: no make nosuch"),
        ("hub/planted.py", '"""See db/migrations/0006_jobs.sql."""\n', "1: 0006_jobs.sql may be outdated"),
    ],
)
def test_a_planted_fault_is_found(name: str, text: str, finding: str, plant: Plant) -> None:
    """HO-05, HO-06, HO-07."""
    assert [found[: len(finding)] for found in plant(name, text)] == [finding]


@pytest.mark.parametrize("ordinary", ORDINARY)
def test_an_ordinary_docstring_has_no_finding(ordinary: str, plant: Plant) -> None:
    """Somebody wrote them who had not read the rules. One names a parameter of its function, which is not here."""
    text = ordinary.replace("`max_delay`", "`delay_seconds`")
    code = f'"""{text}"""\n\n\nclass Planted:\n    """{text}"""\n\n    def f(self):\n        """{text}"""\n'
    assert plant("hub/planted.py", code) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hub/planted.py", f'"""Draw::\n\n    down -----> up   {WORDS} more\n"""\n'),
        ("docs/planted.md", f"{WORDS}. {WORDS}.\n\n```\n{WORDS} more\n```\n`{WORDS} more`"),
        ("docs/planted.md", "See `relay/harvester.py`, hookwire.publish(), `hookwire jobs list --help`, `make check`."),
    ],
)
def test_drawings_listings_and_names_that_exist_pass(name: str, text: str, plant: Plant) -> None:
    assert plant(name, text) == []


def test_changed_files_are_those_of_the_branch_and_those_git_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for branch, name in (("main", "old.py"), ("branch", "committed.py")):
        git(*(["init", "-b", branch] if branch == "main" else ["switch", "-c", branch]))
        (tmp_path / name).write_text("")
        git("add", ".")
        git("commit", "-m", name)
    (tmp_path / "new.py").write_text("")
    monkeypatch.setattr(files, "ROOT", tmp_path)

    assert files.changed_files() == ["committed.py", "new.py"]


def test_each_term_of_the_glossary_has_one_row_and_each_class_two_meanings() -> None:
    """HO-05."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE)
    terms = Counter(term.strip() for row in rows for term in row.split(",") if row not in ("Term", "Name", "---"))

    assert [term for term, count in terms.items() if count > 1] == []
    assert {name for name in rules.two_meanings() if len(rules.places().get(name, [])) < 2} == {"Name"}
