"""The documentation is true: its links lead somewhere, its commands run, its map names what there is (STY-T08)."""

import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.port import free_port
from tests.docs.doc_runner import ROOT, DocRunner, blocks_of, running_hub
from webhooks.signature import new_key, webhook_headers

PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/*.md", "sdk/*.md", "tests/**/*.md")
    for page in ROOT.glob(pattern)
)
RUN_PAGES = [page for page in PAGES if blocks_of(page)]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline")

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (HOOKWIRE_\w+)=(\S+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
# A folder of somebody's machine; /tmp, /var/lib/hookwire, /etc and the like are everybody's.
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|home|work|Users)/")
_REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|crates|rubygems|goproxy|proxy\.golang|repo1?\.maven|repo\.maven\.apache)"
    r"\.(?:org|com|io|dev|cn)\b"
)


def named(page: Path) -> str:
    """A page's name in a test's id."""
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make, in GitHub's way."""
    headings = (re.sub(r"[`*]", "", heading).strip().lower() for heading in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    """Links of a page into this repository that lead nowhere."""
    for link in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


def test_each_picture_is_small_and_shown_by_a_page() -> None:
    """FT-01: `make pictures` takes them; a picture weighs at most 100 KB and is as wide as its name says."""
    shown = {(page.parent / link).resolve() for page in PAGES for link in _LINK.findall(prose(page))}
    found = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    sizes = {path.name: (path.stat().st_size, int.from_bytes(path.read_bytes()[16:20], "big")) for path in found}

    assert {name for name, (size, width) in sizes.items() if size > 100_000 or f"-{width}.png" not in name} == set()
    assert (len(found) >= 4, set(found) - shown) == (True, set())


def reachable_folder(servers_folder: Path) -> Path:
    """Make a folder through which the database's account passes, also under root."""
    folder = Path(tempfile.mkdtemp(prefix="docs-", dir=servers_folder))
    folder.chmod(0o711)
    return folder


@pytest.fixture(scope="module")
def stopped_hub(servers_folder: Path) -> Path:
    """The data folder of a hub that has run once, so its database is made and has all migrations."""
    folder = reachable_folder(servers_folder)
    with running_hub(folder, free_port()):
        pass
    return folder / "data"


@pytest.fixture
def runner(page: Path, servers_folder: Path, stopped_hub: Path, request: pytest.FixtureRequest) -> Iterator[DocRunner]:
    """A hub as `make run` starts it, on a copy of `stopped_hub`, and a folder that looks like a checkout to commands.

    A page that exports settings of Kafka sources has a broker, and a hub with these settings.
    """
    exported = dict(_EXPORT.findall(page.read_text()))
    kafka = request.getfixturevalue("kafka").bootstrap if "HOOKWIRE_KAFKA_SOURCES" in exported else ""
    settings = {name: value.strip("'").replace("127.0.0.1:9094", kafka) for name, value in exported.items() if kafka}
    folder = reachable_folder(servers_folder)
    subprocess.run(["cp", "-a", stopped_hub, folder / "data"], check=True)
    for name, target in {".venv": Path(sys.prefix), "examples": ROOT / "examples"}.items():
        (folder / name).symlink_to(target)
    with running_hub(folder, free_port(), settings) as hub:
        runner = DocRunner(hub, folder, free_port(), kafka)
        try:
            yield runner
        finally:
            runner.end_background()


@pytest.mark.parametrize("page", RUN_PAGES, ids=named)
def test_what_a_page_tells_to_type_does_what_it_says(page: Path, runner: DocRunner) -> None:
    """The README's tour and the tutorials, in order, against a running hub."""
    for block in blocks_of(page):
        runner.run(block)
    runner.finish()


def test_the_readme_and_every_tutorial_are_run() -> None:
    tutorials = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
    assert set(RUN_PAGES) >= {ROOT / "README.md", *tutorials}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_of_a_page_has_a_target(page: Path) -> None:
    assert list(dead_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_names_no_folder_of_a_machine_and_no_package_registry(page: Path) -> None:
    text = page.read_text()
    assert (_MACHINE_PATH.findall(text), _REGISTRY.findall(text)) == ([], [])


def test_the_index_leads_to_every_page_of_the_documentation() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(index))}
    adr_index = ROOT / "docs" / "adr" / "README.md"
    linked |= {(adr_index.parent / link).resolve() for link in _LINK.findall(prose(adr_index))}
    pages = set((ROOT / "docs").glob("**/*.md"))
    assert {named(page) for page in pages - linked - {index}} == set()


def test_what_is_published_by_curl_is_sent_with_its_type() -> None:
    """FT-16: `curl -d` alone says that JSON is a form, and a hub passes on what it says."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md"), *(ROOT / "examples").glob("**/*.md")]
    bare = re.compile(r"curl(?:[^\n]|\\\n)*/(?:events|services/\w+|messages)(?:[^\n]|\\\n)*\s(?:-d|--data)\s")
    found = [(named(page), match[0]) for page in pages for match in bare.finditer(page.read_text())]
    assert [place for place in found if "ontent-" not in place[1]] == []


def test_decisions_are_numbered_without_gap_or_repeat() -> None:
    numbers = [int(page.name[:4]) for page in sorted((ROOT / "docs" / "adr").glob("0*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_run_time_dependency_has_its_reason() -> None:
    """EC: a new dependency needs a line in ADR 21 first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["chat"], *extras["mariadb"], *extras["spark"], *extras["zmq"]]
    wanted = {re.split(r"[\[<>=;~! ]", line)[0] for line in asked}
    (page,) = (ROOT / "docs" / "adr").glob("0021-*.md")
    rows = [line.split("|")[1] for line in page.read_text().splitlines() if line.startswith("| ")]
    given = {name.strip().partition(" ")[0] for row in rows[1:] for name in row.split(",")}
    assert given == wanted


def test_the_python_that_verifies_a_signature_takes_ours_and_no_other() -> None:
    """The blocks of how-to/verify-signatures.md as they stand; the Node and Go ones were run by hand."""
    page = (ROOT / "docs" / "how-to" / "verify-signatures.md").read_text()
    key, body, now = new_key(), '{"n": 1, "text": "\u00e9"}'.encode(), int(time.time())
    code: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(block.replace("whsec_...", key.text()), code)

    ours = webhook_headers([new_key(), key], "evt_abcd2345_1", now, body)
    old = webhook_headers([key], "evt_abcd2345_1", now - 400, body)
    foreign = webhook_headers([new_key()], "evt_abcd2345_1", now, body)
    messages = [(ours, body), (ours, body + b" "), (old, body), (foreign, body)]
    judged = [
        (code["accept"](*message), code["receive"](*message), code["is_ours"](key.text(), *message))
        for message in messages
    ]
    assert judged == [(204, 204, True), *[(401, 401, False)] * 3]


def mapped() -> set[str]:
    """Return the folders that the map in CONTRIBUTING.md names."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Which behaviour lives in which folder")[2].partition("\n## ")[0]
    return {name for name in _CODE.findall(section) if re.fullmatch(r"[a-z]+/[\w/]*", name)}


def test_the_map_names_only_what_exists() -> None:
    assert {name for name in mapped() if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_the_map_names_every_folder_of_a_room(room: str) -> None:
    folders = {f"{named(path.parent)}/" for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".sql"}}
    assert folders - mapped() == set()
