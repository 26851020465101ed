"""Both wheels hold what they should, and the service works from its wheel alone."""

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from packaging.version import InvalidVersion, Version

from scripts.one_name import NamedRoom, rewritten
from scripts.one_name_tests import moved
from tests.waiting import block_poll

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline")


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project, built with the tools of this environment."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def server_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def sdk_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "sdk", tmp_path_factory.mktemp("sdk"))


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_of(*folders: Path) -> set[str]:
    return {
        path.relative_to(folder.parent).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_servers_wheel_holds_every_file_of_every_room_and_nothing_else(server_wheel: Path) -> None:
    """SQL, migrations, pages and the contract too: a file that is missing works in a checkout and fails for users."""
    moved = {f"hookwire_server/{name}" for name in files_of(*(ROOT / room for room in ROOMS), ROOT / "openapi")}
    assert contents(server_wheel) == moved | files_of(ROOT / "hookwire_server")


def test_the_servers_wheel_puts_one_name_into_an_environment(server_wheel: Path) -> None:
    """GU-12: a user's own ``app`` or ``db`` stays theirs."""
    assert {name.partition("/")[0] for name in contents(server_wheel)} == {"hookwire_server"}


def test_a_wheel_of_the_sdist_is_the_wheel_of_the_checkout(tmp_path: Path, server_wheel: Path) -> None:
    """It holds what the wheel is built from, and no tests; and two builds write the same bytes."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, capture_output=True, check=True, timeout=280)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/")[1] for name in archive.getnames()}
    assert not names & {"tests", "benchmarks", "docs", "examples", "sdk"}
    assert wheel.read_bytes() == server_wheel.read_bytes()


def test_the_sdks_wheel_holds_its_package_and_nothing_else(sdk_wheel: Path) -> None:
    assert contents(sdk_wheel) == files_of(ROOT / "sdk" / "src" / "hookwire")


def test_the_sdk_needs_nothing_of_the_service(sdk_wheel: Path) -> None:
    with zipfile.ZipFile(sdk_wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(name).decode()
    assert [line for line in metadata.splitlines() if line.startswith("Requires-Dist: hookwire")] == []


@pytest.mark.parametrize("project", [ROOT, ROOT / "sdk"], ids=["server", "SDK"])
def test_no_extra_reads_as_a_version(project: Path) -> None:
    """The pip of Python 3.13.0 compares an extra named v1a as a version, and installs no wheel that has one."""
    extras = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert [name for name in extras if is_version(name)] == []


def is_version(name: str) -> bool:
    try:
        Version(name)
    except InvalidVersion:
        return False
    return True


# --- installed --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path that the account of the embedded server may pass through (EC-P04, EC-P07)."""
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def programs(folder: Path, server_wheel: Path, sdk_wheel: Path) -> Path:
    """The folder of programs of a new environment: our wheels, and the packages that we depend on from this one."""
    venv.create(folder / "env", with_pip=False)
    home = folder / "env" / "bin"
    install = [sys.executable, "-m", "pip", "--python", str(home / "python"), "install", "--quiet", "--no-index"]
    subprocess.run([*install, "--no-deps", str(server_wheel), str(sdk_wheel)], check=True, timeout=280)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(site.getsitepackages()[0] + "\n", encoding="utf-8")
    return home


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKWIRE_", "PYTHON"))}
    return kept | settings


def run(folder: Path, *command: str | Path) -> str:
    finished = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=True, timeout=60
    )
    return finished.stdout


IMPORT_ALL = """
import importlib, pkgutil, hookwire_server
for module in pkgutil.walk_packages(hookwire_server.__path__, "hookwire_server."):
    importlib.import_module(module.name)
print("imported")
"""


EMBED = "from hookwire_server.embed import load_settings, open_relay; open_relay(load_settings())"


STASH = """
import asyncio, sys, asyncpg, hookwire
async def main():
    connection = await asyncpg.connect(sys.argv[1])
    async with connection.transaction():
        print(await hookwire.stash(connection, hookwire.Record("orders", {"n": 1}, key="ada")))
asyncio.run(main())
"""


ENQUEUE = """
import asyncio, sys, asyncpg
from hookwire.jobs import Queue, enqueue, enqueue_task
async def main():
    connection = await asyncpg.connect(sys.argv[1])
    async with connection.transaction():
        await enqueue(connection, "check")
        await enqueue_task(connection, "resize")
        await Queue("mail").submit(connection, "hello")
asyncio.run(main())
"""


def test_the_installed_sdk_publishes_in_a_transaction(folder: Path, programs: Path, database_url: str) -> None:
    assert run(folder, programs / "python", "-c", STASH, database_url).startswith("evt_")


def test_the_environment_is_not_the_checkout(folder: Path, programs: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    where = run(folder, programs / "python", "-c", "import hookwire_server, hookwire; print(hookwire_server, hookwire)")
    assert str(ROOT) not in where


def test_every_module_of_the_wheel_is_imported_without_a_checkout(folder: Path, programs: Path) -> None:
    """Imports inside functions were moved too, but nothing here calls them: no text of the wheel imports a room."""
    assert run(folder, programs / "python", "-c", IMPORT_ALL).split() == ["imported"]


def test_the_installed_command_works_beside_a_users_own_packages(folder: Path, programs: Path) -> None:
    """GU-12: with ``PYTHONPATH=.``, in a folder with packages of all our rooms' names, each of which fails."""
    beside = folder / "beside"
    for room in (*ROOMS, "openapi"):
        (beside / room).mkdir(parents=True)
        (beside / room / "__init__.py").write_text("raise SystemExit('the package of the user')\n", encoding="utf-8")
    finished = []
    for command in (["hookwire", "--help"], ["python", "-m", "hookwire_server", "--help"], ["python", "-c", EMBED]):
        program, *arguments = command
        ended = subprocess.run(
            [programs / program, *arguments], cwd=beside, env=environment(PYTHONPATH="."), capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
        finished.append((ended.returncode, ended.stderr))
    assert finished == [(0, "")] * 3


def test_the_checkout_has_the_public_name_too() -> None:
    from hookwire_server import embed

    assert {name for name in embed.__all__ if not hasattr(embed, name)} == set()


@pytest.mark.parametrize(
    "line",
    [
        'files("app.web.pages")', 'import_module("relay")', 'NAME = "python -m app.cli work"',
        'X = f"db.embedded.{1}"', 'X = """\nfrom db.pool import Pool\n"""',
    ],
)  # fmt: skip
def test_a_string_that_names_a_room_is_refused_with_its_file_and_line(line: str) -> None:
    with pytest.raises(NamedRoom, match=r"^hub/new\.py:2: "):
        rewritten(f"import os\n{line}\n", "hub/new.py", ROOT)


def test_imports_are_moved_where_they_stand() -> None:
    source = (
        "import os, db.bound, app.log as log\n"
        "def f():\n    from hub.publish import é  # hub.publish\n    from . import db\n"
    )
    assert rewritten(source, "x.py", ROOT) == (
        "import os, hookwire_server.db.bound, hookwire_server.db as db, hookwire_server.app.log as log\n"
        "def f():\n    from hookwire_server.hub.publish import é  # hub.publish\n    from . import db\n"
    )


@pytest.mark.parametrize("text", ['X = "hub.topic"', '"""See app.web.pages."""', 'X = "event.installation"'])
def test_other_words_with_dots_are_left_alone(text: str) -> None:
    assert rewritten(text, "x.py", ROOT) == text


def test_the_installed_command_explains_itself(folder: Path, programs: Path) -> None:
    assert "Usage: hookwire" in run(folder, programs / "hookwire", "--help")


def test_the_installed_command_works_on_jobs_messages_and_tasks(
    folder: Path, programs: Path, database_url: str
) -> None:
    """ADR 18: it is a program on the SDK, which each environment of the service takes from the checkout."""
    run(folder, programs / "python", "-c", ENQUEUE, database_url)
    settings = environment(HOOKWIRE_DATABASE_URL=database_url)
    said = []
    for options in (["--jobs"], ["--queue", "mail"], []):
        command = [programs / "hookwire", "work", *options, "--count", "1", "--", "true"]
        finished = subprocess.run(
            command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=280
        )
        said.append((finished.returncode, finished.stderr.splitlines()[-1]))
    assert said == [
        (0, "hookwire: completed 1, failed 0, returned 0"),
        (0, "hookwire: accepted 1, rejected 0"),
        (0, "hookwire: finished 1, failed 0, returned 0"),
    ]


def test_every_environment_of_the_service_takes_the_sdk_from_the_checkout() -> None:
    """No index is asked for it: pip takes what is named by its folder, and no requirements file names it."""
    for file in ("scripts/bootstrap", "Dockerfile", "Dockerfile.lake"):
        installing = re.findall(r"pip .*install .*|pip .*--editable .*", (ROOT / file).read_text(encoding="utf-8"))
        ours = [line for line in installing if re.search(r"(?:^|\s)'?\.(?:\[\w+\])?'?(?:\s|$)", line)]
        assert [line for line in ours if "./sdk" not in line] == [], file
        assert ours, file
    pins = [path.read_text(encoding="utf-8") for path in (ROOT / "requirements").glob("*.txt")]
    assert [text for text in pins if re.search(r"^hookwire\b", text, re.MULTILINE)] == []


def test_the_installed_service_takes_an_event(folder: Path, programs: Path, free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}"
    settings = environment(HOOKWIRE_DATA_DIR=str(folder / "data"), HOOKWIRE_LISTEN=f"127.0.0.1:{free_port}")
    with (folder / "serve.log").open("wb") as log:
        service = subprocess.Popen([programs / "hookwire", "serve"], cwd=folder, env=settings, stdout=log, stderr=log)
    try:
        answer = post_when_up(f"{url}/topics/orders/events", b"hello", service)
        event = get(f"{url}/events/{answer['id']}")
        pages = [get_bytes(f"{url}{path}") for path in ("/", "/docs", "/openapi.json", "/problems/invalid-topic")]
    finally:
        service.send_signal(signal.SIGTERM)
        exit_code = service.wait(timeout=60)
    log_text = (folder / "serve.log").read_text(encoding="utf-8")
    assert (answer["topic"], event["id"], all(pages), exit_code) == ("orders", answer["id"], True, 0), log_text
    assert "Traceback" not in log_text


def post_when_up(url: str, body: bytes, service: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urlopen(Request(url, data=body, method="POST"), timeout=60) as answer:
                assert answer.status == 202
                decoded: dict[str, Any] = json.load(answer)
                return decoded
        except (URLError, ConnectionError):
            assert service.poll() is None, "the service has ended"
            if time.monotonic() > deadline:
                raise TimeoutError("the service did not come up") from None
            block_poll()


def get_bytes(url: str) -> bytes:
    with urlopen(url, timeout=60) as answer:
        content: bytes = answer.read()
        return content


def get(url: str) -> Any:
    return json.loads(get_bytes(url))


def test_a_test_that_is_moved_onto_the_wheel_names_rooms_by_its_name_also_in_strings() -> None:
    source = 'from hub.keys import Keys\nmonkeypatch.setattr("hub.keys.Keys", "hub.topic")\n'
    assert moved(source, "tests/x.py", ROOT) == (
        'from hookwire_server.hub.keys import Keys\nmonkeypatch.setattr("hookwire_server.hub.keys.Keys", "hub.topic")\n'
    )
