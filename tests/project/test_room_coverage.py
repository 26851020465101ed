"""`make coverage`: every room is measured by its own tests, and CONTRIBUTING has a figure for each (HO-09)."""

import json
import re
from pathlib import Path

import pytest

from scripts.room_coverage import Measured, main, read, rooms, row

ROOT = Path(__file__).parents[2]


def test_each_room_has_source_and_tests() -> None:
    missing = [path for room in rooms().values() for path in (room.source, *room.tests) if not (ROOT / path).exists()]
    assert missing == []


def test_each_module_of_the_product_belongs_to_one_room() -> None:
    """A room that nobody measures would be found here."""
    sources = [room.source for room in rooms().values()]
    product = re.findall(r'"([a-z]+)"', re.search(r"^known_first_party = \[(.*)\]$", project(), re.MULTILINE)[1])

    assert sorted({source.partition("/")[0] for source in sources}) == sorted({*product, "sdk"})
    folders = {f"app/{path.parent.name}" for path in ROOT.glob("app/*/__init__.py")}
    of_the_root = {"app/assembly", "app/bridges", "app/checks"}
    assert {source for source in sources if source.startswith("app/")} == folders - of_the_root


def test_the_totals_of_a_report_are_read(tmp_path: Path) -> None:
    (tmp_path / "r").write_text(json.dumps({"totals": {"num_statements": 7, "percent_covered": 42.5}}), "utf-8")

    assert read(tmp_path / "r", 1) == Measured(7, 42.5, 1)


def test_a_room_whose_tests_fail_says_so() -> None:
    found = {
        "event": Measured(1_000, 99.6, 0),
        "db": Measured(10, 50.0, 1),
        "hub": Measured(10, 50.0, 2),
        "sdk": Measured(0, 0.0, 5),
    }

    assert [row(name, one) for name, one in found.items()] == [
        "| `event` | 1,000 | 100 % |",
        "| `db` | 10 | 50 %, a test failed |",
        "| `hub` | 10 | 50 %, pytest ended with 2 |",
        "| `sdk` | – | no such tests |",
    ]


@pytest.mark.parametrize(("code", "ended"), [(0, 0), (5, 0), (1, 1), (2, 1)])
def test_a_room_without_such_tests_is_no_failure(monkeypatch: pytest.MonkeyPatch, code: int, ended: int) -> None:
    """With `--unit`, two rooms have none."""
    monkeypatch.setattr("sys.argv", ["room_coverage", "--unit", "pipeline"])
    monkeypatch.setattr("scripts.room_coverage.measure", lambda *_: Measured(0, 0.0, code))
    assert main() == ended


def test_an_unknown_room_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["room_coverage", "kitchen"])
    with pytest.raises(SystemExit) as refused:
        main()

    assert (refused.value.code, "no room is called 'kitchen'; there are event, db" in capsys.readouterr().err) == (
        2,
        True,
    )


def test_contributing_has_a_row_for_each_room() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Coverage")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) == list(rooms())


def project() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")
