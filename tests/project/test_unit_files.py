"""tests/unit_files.py: which files `make unit` collects, and in which process (HO-09)."""

from collections import Counter
from pathlib import Path

import pytest

from tests.unit_files import dealt, unit_files

ROOT = Path(__file__).parents[2]

_CONFTEST = """
@pytest.fixture
def table(database_url): ...
"""


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("def test_pure(): ...", True),
        ("def test_one(kafka): ...\n\nasync def test_two(\n    tmp_path: Path, table: str\n) -> None: ...", False),
        ("def test_one(kafka): ...\n\ndef test_pure(tmp_path): ...", True),
        ("def hub(table): ...\n\ndef test_a_fixture_above_a_fixture(hub, size=1): ...", False),
        ("def test_one(kafka): ...\n\nclass TestGroup:\n    def test_pure(self): ...", True),
        ("def test_one(kafka): ...\n\nTestStates = Machine.TestCase", True),
        ("import subprocess\n\ndef test_pure(): ...", False),
    ],
    ids=["pure", "servers", "mixed", "above", "class", "states", "process"],
)
def test_a_file_is_left_out_if_all_its_tests_need_servers(tmp_path: Path, text: str, is_kept: bool) -> None:
    folder = tmp_path / "tests" / "relay"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (folder / "test_planted.py").write_text(text, encoding="utf-8")

    assert list(unit_files(tmp_path)) == ([folder / "test_planted.py"] if is_kept else [])


def test_no_file_with_a_unit_test_is_left_out(request: pytest.FixtureRequest) -> None:
    """Whatever this run has collected: `make test` collects all."""
    collected = {item.path for item in request.session.items if item.get_closest_marker("unit")}

    assert collected - set(unit_files(ROOT)) == set()


def test_each_file_is_dealt_to_one_process() -> None:
    files = list(unit_files(ROOT))

    assert Counter(path for hand in dealt(files, 3) for path in hand) == Counter(files)
