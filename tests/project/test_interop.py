"""What `make test-interop` needs and fetches, without running it: FT-05."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scripts import interop_clients

SOURCES = Path(interop_clients.__file__).with_name("interop") / "api"


def test_the_generators_of_clients_are_pinned() -> None:
    """FT-05: a new version of a generator is a change of ours."""
    files = [json.loads(path.read_text())["dependencies"] for path in SOURCES.glob("*/package.json")]
    packages = {f"{name} {version}": version for file in files for name, version in file.items()}
    generator, runtime = interop_clients._OAPI_CODEGEN.rpartition("@")[2], interop_clients._GO_MODULE.split()[-1]

    assert {name.split()[0] for name in packages} >= {"openapi-typescript", "@hey-api/openapi-ts", "@redocly/cli"}
    assert [version for version in packages.values() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    assert [bool(re.fullmatch(r"v\d+\.\d+\.\d+", version)) for version in (generator, runtime)] == [True, True]


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ((), "Node"),
        (("node",), "Node"),
        (("node", "npm"), "Go"),
        (("node", "npm", "go"), "a JDK"),
        (("node", "npm", "go", "javac", "mvn"), None),
    ],
    ids=["nothing", "no npm", "no Go", "no Java", "all"],
)
def test_what_is_missing_is_named_in_one_sentence(there: tuple[str, ...], told: str | None) -> None:
    """FT-05."""
    found = interop_clients.missing(lambda name: name if name in there else None)
    assert (found is None) if told is None else (found is not None and f"install {told}" in found)


@pytest.mark.parametrize("page", ["typescript.md", "go.md", "java.md"])
def test_both_programs_of_a_page_are_written(page: str, tmp_path: Path) -> None:
    """GU-11: what `make test-interop` compiles is what a reader copies."""
    interop_clients._write_programs(interop_clients._PAGES / page, tmp_path)

    names = {name.lower() for path in tmp_path.rglob("*") for name in (path.stem, path.parent.name)}
    assert {"publish", "receive"} <= names


def test_the_commands_of_the_page_on_java_install_nothing_beside_it() -> None:
    """GU-11: they fetch the generator, run it, and build the client without the user's own repository."""
    fetched, generated, built = interop_clients.java_commands()

    assert "openapi-generator-cli:" in fetched
    assert " generate -i openapi.json -g java " in generated
    assert (" package " in built, " install " in built) == (True, False)
