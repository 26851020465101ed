"""Clients generated from openapi.json in four ways, and the programs of two pages (`make test-interop`, FT-05, GU-11).

Each client publishes an event and a batch, subscribes, rotates a key and lists. They come from openapi-python-client,
openapi-typescript and @hey-api/openapi-ts (npm), and oapi-codegen (Go), in pinned versions. No generator may warn. The
TypeScript programs are compiled under `strict`, so a wrong type in the document is an error. Redocly and Spectral judge
the document. The programs of docs/how-to/typescript.md, go.md and java.md publish with a generated client, and
receive with the official package of Standard Webhooks.

The script needs Node >= 20, npm, Go >= 1.22, a JDK >= 17 and Maven, and starts hubs of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hookwire import Hookwire
from runtime.port import free_port
from scripts.fuzz import running_hub

__all__ = ["EXPECTED", "java_commands", "main", "missing"]

_ROOT: Final = Path(__file__).parents[1]
_DOCUMENT: Final = _ROOT / "openapi" / "openapi.json"
_SOURCES: Final = Path(__file__).with_name("interop") / "api"
_OAPI_CODEGEN: Final = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
_GO_MODULE: Final = "module interop\n\ngo 1.22\n\nrequire github.com/oapi-codegen/runtime v1.8.0\n"
_STANDARD_GO: Final = "github.com/standard-webhooks/standard-webhooks/libraries v0.0.1"
_PAGES: Final = _ROOT / "docs" / "how-to"
_RECEIVED_SECONDS_MAX: Final = 120.0
_SECONDS_MAX: Final = 900.0
EXPECTED: Final[Mapping[str, Any]] = {
    "event": ["orders", "k", '{"order":4711}'],
    "refused": [422, "invalid-topic"],
    "batch": ["stored", "stored"],
    "rotated": 2,
    "keys": [2, 1],
    "subscriptions": [[True, "active"]],
    "undelivered": True,
}
"""The output of each program for the same walk."""


def main() -> int:
    """Generate, compile and run every client; return the exit code."""
    if absent := missing(shutil.which):
        print(f"interop: {absent}", file=sys.stderr)
        return 1
    results = [
        _lints(),
        _passes("Python (openapi-python-client)", _in_python),
        _passes("TypeScript (openapi-typescript)", _in_typescript),
        _passes("TypeScript (@hey-api/openapi-ts)", _in_hey_api),
        _passes("Go (oapi-codegen)", _in_go),
        _receives("typescript.md", _typescript_page),
        _receives("go.md", _go_page),
        _receives("java.md", _java_page),
    ]
    return 0 if all(results) else 1


def missing(which: Callable[[str], str | None]) -> str | None:
    """Return one sentence that says what to install, or None."""
    if which("node") is None or which("npm") is None:
        return "install Node >= 20 and npm (Debian: nodejs npm)"
    if which("go") is None:
        return "install Go >= 1.22 (go.dev/dl)"
    if which("javac") is None or which("mvn") is None:
        return "install a JDK >= 17 and Maven (Debian: openjdk-17-jdk-headless maven)"
    return None


def _passes(name: str, build: Callable[[Path], Sequence[str]]) -> bool:
    """Run one client against a new hub; print what came of it."""
    with tempfile.TemporaryDirectory(prefix="hookwire-interop-") as text:
        folder = Path(text)
        (folder / "client").mkdir()
        command = build(folder / "client")
        with running_hub(folder) as url:
            printed = _output([*command, url, "http://127.0.0.1:9000/hook"], folder / "client")
    found = json.loads(printed)
    if found != EXPECTED:
        print(f"interop: {name}: expected {json.dumps(EXPECTED)}, got {json.dumps(found)}", file=sys.stderr)
        return False
    print(f"interop: generated {name} client -> our API: passed", flush=True)
    return True


def _lints() -> bool:
    """Judge the document by the recommended rules of two linters."""
    with tempfile.TemporaryDirectory(prefix="hookwire-interop-") as text:
        folder = Path(text)
        shutil.copytree(_SOURCES / "lint", folder, dirs_exist_ok=True)
        programs = _npm(folder)
        _silent([str(programs / "redocly"), "lint", "--extends=recommended", str(_DOCUMENT)], folder)
        _silent([str(programs / "spectral"), "lint", "--fail-severity=hint", str(_DOCUMENT)], folder)
    print("interop: Redocly and Spectral warn of nothing: passed", flush=True)
    return True


def _in_python(folder: Path) -> Sequence[str]:
    """Generate the package; return the program."""
    shutil.copytree(_SOURCES / "python", folder, dirs_exist_ok=True)
    (folder / "config.json").write_text('{"post_hooks": []}')
    generator = str(Path(sys.executable).with_name("openapi-python-client"))
    _silent(
        [generator, "generate", "--path", str(_DOCUMENT), "--meta", "none", "--config", "config.json",
         "--output-path", "hookwire_client"], folder,
    )  # fmt: skip
    return [sys.executable, str(folder / "client.py")]


def _in_typescript(folder: Path) -> Sequence[str]:
    """Install the generator, generate the types, compile; return the program."""
    shutil.copytree(_SOURCES / "ts", folder, dirs_exist_ok=True)
    _typescript_types(folder, _npm(folder))
    return ["node", str(folder / "client.js")]


def _in_hey_api(folder: Path) -> Sequence[str]:
    """Install the generator, generate the client, compile; return the program."""
    shutil.copytree(_SOURCES / "hey", folder, dirs_exist_ok=True)
    programs = _npm(folder)
    _silent([str(programs / "openapi-ts"), "--input", str(_DOCUMENT), "--output", "hookwire", "--no-log-file"], folder)
    _output([str(programs / "tsc"), "--project", "."], folder)
    return ["node", str(folder / "client.js")]


def _in_go(folder: Path) -> Sequence[str]:
    """Generate the package, compile; return the program."""
    shutil.copytree(_SOURCES / "go", folder, dirs_exist_ok=True)
    (folder / "go.mod").write_text(_GO_MODULE)
    _go_client(folder)
    _output(["go", "build", "-o", "client", "."], folder)
    return [str(folder / "client")]


def _typescript_page(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Compile the programs of the page; return publisher and receiver."""
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(_SOURCES / "ts" / name, folder)
    _write_programs(_PAGES / "typescript.md", folder)
    _typescript_types(folder, _npm(folder))
    return ["node", str(folder / "publish.js")], ["node", str(folder / "receive.js")]


def _go_page(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Compile the programs of the page; return publisher and receiver."""
    (folder / "go.mod").write_text(_GO_MODULE.replace("interop", "shop") + f"\nrequire {_STANDARD_GO}\n")
    _write_programs(_PAGES / "go.md", folder)
    _go_client(folder)
    (folder / "bin").mkdir()
    _output(["go", "build", "-o", "bin/", "./publish", "./receive"], folder)
    return [str(folder / "bin" / "publish")], [str(folder / "bin" / "receive")]


def _java_page(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Generate the client by the page's commands, compile the programs; return publisher and receiver."""
    shutil.copy(_DOCUMENT, folder)
    shutil.copy(_SOURCES.with_name("signatures") / "pom.xml", folder)
    _write_programs(_PAGES / "java.md", folder)
    for command in java_commands():
        _output(["sh", "-c", command], folder)
    _output(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], folder)
    client = folder / "hookwire-client" / "target"
    path = f"{folder}/classes:{client}/*:{client}/dependency/*:{folder}/jars/*"
    _output(["javac", "-cp", path, "-d", "classes", "Publish.java", "Receive.java"], folder)
    return ["java", "-cp", path, "Publish"], ["java", "-cp", path, "Receive"]


def java_commands() -> list[str]:
    """Return the page's commands after the one that fetches the document.

    The client is not installed into the user's own repository of Maven; its dependencies are laid beside it.
    """
    block = (_PAGES / "java.md").read_text().partition("```sh\n")[2].partition("```")[0]
    _, *commands = block.replace("\\\n", "").splitlines()
    return [command.replace(" install ", " package dependency:copy-dependencies ") for command in commands]


def _write_programs(page: Path, folder: Path) -> None:
    """Write each program of a page to the file that its first line names."""
    for name, text in re.findall(r"^```\w+\n// (\S+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def _receives(page: str, build: Callable[[Path], tuple[Sequence[str], Sequence[str]]]) -> bool:
    """Publish by one program of a page; the other must print the event, verified."""
    with tempfile.TemporaryDirectory(prefix="hookwire-interop-") as text:
        folder, port = Path(text), str(free_port())
        (folder / "programs").mkdir()
        publisher, receiver = build(folder / "programs")
        with running_hub(folder) as url, Hookwire(url) as hub:
            secret = hub.subscriptions.create(topic="orders.*", callback=f"http://127.0.0.1:{port}/hook").secret
            environment = os.environ | {"HOOKWIRE_URL": url, "WEBHOOK_SECRET": secret or "", "PORT": port}
            with subprocess.Popen(receiver, env=environment, stdout=subprocess.PIPE, text=True) as process:
                timer = threading.Timer(_RECEIVED_SECONDS_MAX, process.kill)
                timer.start()
                try:
                    subprocess.run(publisher, env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
                    assert process.stdout is not None
                    found = process.stdout.readline()
                finally:
                    timer.cancel()
                    process.kill()
    if found != '{"order":1}\n':
        print(f"interop: {page}: the receiver printed {found!r}", file=sys.stderr)
        return False
    print(f"interop: {page}: published by a generated client, verified by Standard Webhooks: passed", flush=True)
    return True


def _npm(folder: Path) -> Path:
    """Install what package.json names; return the folder of the programs."""
    _output(["npm", "install", "--silent", "--no-audit", "--no-fund"], folder)
    return folder / "node_modules" / ".bin"


def _typescript_types(folder: Path, programs: Path) -> None:
    _silent([str(programs / "openapi-typescript"), str(_DOCUMENT), "--output", "schema.d.ts"], folder)
    _output([str(programs / "tsc"), "--project", "."], folder)


def _go_client(folder: Path) -> None:
    (folder / "hookwire").mkdir()
    generate = ["-generate", "types,client", "-package", "hookwire", "-o", "hookwire/client.go"]
    _output(["go", "install", _OAPI_CODEGEN], folder, GOBIN=str(folder))
    _silent([str(folder / "oapi-codegen"), *generate, str(_DOCUMENT)], folder)
    _output(["go", "mod", "tidy"], folder)


def _silent(command: Sequence[str], folder: Path) -> None:
    """Run a generator or a linter, and end if it warns."""
    said = _output(command, folder, errors=True)
    if re.search(r"\bwarn", said, re.IGNORECASE):
        raise SystemExit(f"interop: {Path(command[0]).name} warns:\n{said}")


def _output(command: Sequence[str], folder: Path, *, errors: bool = False, **more: str) -> str:
    """Run a command; return its output, with its errors if asked for, or end with both."""
    environment = os.environ | {"GOFLAGS": "-mod=mod"} | more
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    if done.returncode:
        raise SystemExit(f"interop: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr if errors else done.stdout


if __name__ == "__main__":
    sys.exit(main())
