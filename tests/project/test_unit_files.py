"""tests/unit_files.py: which files `make unit` collects (HO-09)."""

from pathlib import Path

import pytest

from tests.unit_files import is_unit_file

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

    assert is_unit_file(folder / "test_planted.py", tmp_path) == is_kept
