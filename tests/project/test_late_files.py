"""tests/late_files.py: two processes run files that none has collected before, on a small suite of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_CONFTEST = """
import os, pathlib, pytest

def note(word):
    with (pathlib.Path(__file__).parent / "notes").open("a") as notes:
        notes.write(f"{word} {os.getpid()}\\n")

@pytest.fixture(scope="session")
def server():
    note("server begins")
    yield
    note("server ends")

@pytest.fixture(scope="module")
def table(server, request):
    name = request.node.path.name
    note(f"table of {name} begins")
    yield note
    note(f"table of {name} ends")
"""
_IMPORTED = "import os, pathlib\nwith (pathlib.Path(__file__).parent / 'notes').open('a') as notes:\n"
_IMPORTED += "    notes.write(f'{pathlib.Path(__file__).name} is imported {os.getpid()}\\n')\n"
_TESTS = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_right(table, number): ...

@pytest.mark.slow
def test_slow(table): ...
"""
_WRONG = "\ndef test_wrong(table):\n    assert 1 == 2\n"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files, one of which cannot be imported."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    for name in "abcd":
        text = _IMPORTED + _TESTS + (_WRONG if name == "b" else "")
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    (folder / "test_broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    return folder


def run(suite: Path, processes: int) -> str:
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        "-n",
        str(processes),
        "--dist",
        "loadfile",
        "-m",
        "not slow",
        suite,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240).stdout


@pytest.fixture(scope="module")
def report(suite: Path) -> str:
    return run(suite, 2)


def test_each_test_runs_and_a_file_that_cannot_be_imported_is_an_error(report: str) -> None:
    assert re.findall(r"(\d+ \w+)(?:,| in )", report.splitlines()[-1]) == ["1 failed", "8 passed", "1 error"], report
    assert re.findall(r"^(FAILED|ERROR) \S*?(\w+\.py\S*)", report, re.MULTILINE) == [
        ("ERROR", "test_broken.py"), ("FAILED", "test_b.py::test_wrong"),
    ], report  # fmt: skip


def test_a_file_is_imported_once_and_its_fixtures_end_before_the_next_and_a_server_lives_as_long_as_its_process(
    report: str, suite: Path
) -> None:
    lines = [line.rpartition(" ") for line in (suite / "notes").read_text(encoding="utf-8").splitlines()]
    processes = {process for *_, process in lines}
    files = sorted(word for word, *_ in lines if "imported" in word)
    told = [[word for word, _, its in lines if its == process and "server" not in word] for process in processes]

    assert files == [f"test_{name}.py is imported" for name in "abcd"], report
    for process, words in zip(processes, told, strict=True):
        of_tables = [word for word in words if "table" in word]
        names = [word.split()[2] for word in of_tables[::2]]
        assert of_tables == [f"table of {name} {step}" for name in names for step in ("begins", "ends")], process
    assert [word for word, *_ in lines].count("server begins") == len(processes)


def test_a_file_without_a_chosen_test_ends_what_the_test_before_it_began(tmp_path: Path) -> None:
    chosen, slow = "def test_right(): ...\n", "import pytest\n\n@pytest.mark.slow\ndef test_slow(): ...\n"
    for name, text in {"one/test_a.py": chosen, "one/test_b.py": slow, "two/test_c.py": chosen}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    report = run(tmp_path, 1)

    assert re.findall(r"(\d+ \w+)(?:,| in )", report.splitlines()[-1]) == ["2 passed"], report
