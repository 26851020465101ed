"""Clients generated from openapi.json in TypeScript and Go (`make test-interop`, FT-05).

Each publishes, subscribes, rotates a key and lists. The generators are openapi-typescript (npm) and oapi-codegen (Go),
both in pinned versions. The TypeScript program is compiled under `strict`, so a wrong type in the document is an error.

The script needs Node >= 20, npm and Go >= 1.22, and starts a hub of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.fuzz import running_hub

__all__ = ["EXPECTED", "main", "missing"]

_ROOT: Final = Path(__file__).parents[1]
_DOCUMENT: Final = _ROOT / "openapi" / "openapi.json"
_SOURCES: Final = Path(__file__).with_name("interop") / "api"
_OAPI_CODEGEN: Final = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
_GO_MODULE: Final = "module interop\n\ngo 1.22\n\nrequire github.com/oapi-codegen/runtime v1.8.0\n"
_SECONDS_MAX: Final = 900.0
EXPECTED: Final[Mapping[str, Any]] = {
    "event": ["orders", "k", '{"order":4711}'],
    "refused": [422, "invalid-topic"],
    "rotated": 2,
    "keys": [2, 1],
    "subscriptions": [[True, "active"]],
    "undelivered": True,
}
"""The output of each program for the same walk."""


def main() -> int:
    """Generate, compile and run both clients; return the exit code."""
    if absent := missing(shutil.which):
        print(f"interop: {absent}", file=sys.stderr)
        return 1
    results = [_passes("TypeScript (openapi-typescript)", _in_typescript), _passes("Go (oapi-codegen)", _in_go)]
    return 0 if all(results) else 1


def missing(which: Callable[[str], str | None]) -> str | None:
    """Return one sentence that says what to install, or None."""
    if which("node") is None or which("npm") is None:
        return "install Node >= 20 and npm (Debian: nodejs npm)"
    if which("go") is None:
        return "install Go >= 1.22 (go.dev/dl)"
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


def _in_typescript(folder: Path) -> Sequence[str]:
    """Install the generator, generate the types, compile; return the program."""
    shutil.copytree(_SOURCES / "ts", folder, dirs_exist_ok=True)
    programs = folder / "node_modules" / ".bin"
    _output(["npm", "install", "--silent", "--no-audit", "--no-fund"], folder)
    _output([str(programs / "openapi-typescript"), str(_DOCUMENT), "--output", "schema.d.ts"], folder)
    _output([str(programs / "tsc"), "--project", "."], folder)
    return ["node", str(folder / "client.js")]


def _in_go(folder: Path) -> Sequence[str]:
    """Generate the package, compile; return the program."""
    shutil.copytree(_SOURCES / "go", folder, dirs_exist_ok=True)
    (folder / "go.mod").write_text(_GO_MODULE)
    (folder / "hookwire").mkdir()
    generate = ["-generate", "types,client", "-package", "hookwire", "-o", "hookwire/client.go"]
    _output(["go", "run", _OAPI_CODEGEN, *generate, str(_DOCUMENT)], folder)
    _output(["go", "mod", "tidy"], folder)
    _output(["go", "build", "-o", "client", "."], folder)
    return [str(folder / "client")]


def _output(command: Sequence[str], folder: Path) -> str:
    """Run a command; return its output, or end with its output."""
    environment = os.environ | {"GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    if done.returncode:
        raise SystemExit(f"interop: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
