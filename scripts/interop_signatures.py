"""The seven official Standard Webhooks libraries against ours (`make test-interop`).

They are those for Python, JavaScript, Go, Java, Rust, Ruby and PHP. Each judges deliveries that the hub's own code has
signed: right ones, rotated, forged, old and of another secret. Each signs the same contents, and the SDK accepts that.

The script needs Node, npm, Go, Java with Maven, cargo, Ruby and PHP.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookwire import SignatureRefused, verify
from webhooks.signature import SigningKey, new_ed25519_key, new_key, webhook_headers

__all__ = ["main"]

_SOURCES: Final = Path(__file__).with_name("interop") / "signatures"
_NPM_PACKAGE: Final = "standardwebhooks@1.1.1"
_GO_MODULE: Final = (
    "module interop\n\ngo 1.22\n\nrequire github.com/standard-webhooks/standard-webhooks/libraries v0.0.1\n"
)
_TOOLS: Final = ("node", "npm", "go", "java", "mvn", "cargo", "ruby", "php")
_SECONDS_MAX: Final = 900.0
_ID: Final = "evt_1_7"


@dataclass(frozen=True, slots=True)
class Case:
    """A delivery, and whether it must be accepted."""

    name: str
    secret: str
    timestamp: int
    body: bytes
    signature: str
    accepted: bool

    def line(self) -> str:
        """Return what the programs read."""
        encoded = [base64.b64encode(text).decode() for text in (self.body, self.signature.encode())]
        return " ".join([self.secret, _ID, str(self.timestamp), *encoded]) + "\n"


def _cases() -> list[Case]:
    """Sign as the hub signs, and spoil some."""
    now, old, key, other = int(time.time()), int(time.time()) - 3_600, new_key(), new_key()
    plain, umlauts = b'{"order":1}', '{"name":"Zo\u00eb \u2713"}'.encode()

    def case(name: str, keys: Sequence[SigningKey], body: bytes, accepted: bool, **more: bytes | int) -> Case:
        timestamp = int(more.get("timestamp", now))
        signature = webhook_headers(keys, _ID, timestamp, body)["webhook-signature"]
        return Case(name, key.text(), timestamp, bytes(more.get("sent", body)), signature, accepted)

    return [
        case("plain", [key], plain, True),
        case("not ASCII", [key], umlauts, True),
        case("rotated, ours last", [other, key], plain, True),
        case("with v1a before it", [new_ed25519_key(), key], plain, True),
        case("one byte changed", [key], plain, False, sent=b'{"order":2}'),
        case("another secret", [other], plain, False),
        case("an hour old", [key], plain, False, timestamp=old),
    ]


def main() -> int:
    """Run every library; return the exit code."""
    if absent := [name for name in _TOOLS if shutil.which(name) is None]:
        print(f"interop: install {', '.join(absent)}", file=sys.stderr)
        return 1
    wrong: list[str] = []
    for name, build in _LIBRARIES.items():
        with tempfile.TemporaryDirectory(prefix="hookwire-interop-") as folder:
            shutil.copytree(_SOURCES, folder, dirs_exist_ok=True)
            command, cases = build(Path(folder)), _cases()
            printed = _output(command, Path(folder), "".join(case.line() for case in cases)).splitlines()
        found = [_fault(case, line) for case, line in zip(cases, printed, strict=True)]
        wrong += [f"{name}: {fault}" for fault in found if fault]
        print(f"interop: Standard Webhooks in {name}: {len(found)} deliveries judged, {len(found)} signed", flush=True)
    print("\n".join(wrong) or "interop: each agrees with ours: passed", file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


def _fault(case: Case, line: str) -> str:
    """Return what a library has done otherwise than ours, or nothing."""
    judged, signed = line.split()
    if judged != str(case.accepted).lower():
        return f"{case.name}: accepted: {judged}"
    headers = {"webhook-id": _ID, "webhook-timestamp": str(case.timestamp), "webhook-signature": signed}
    try:
        verify(case.secret, headers, case.body, now_seconds=case.timestamp)
    except SignatureRefused as error:
        return f"{case.name}: its signature is refused: {error}"
    return ""


def _in_python(_: Path) -> list[str]:
    return [sys.executable, "verify.py"]


def _in_javascript(folder: Path) -> list[str]:
    _output(["npm", "install", "--silent", "--no-audit", "--no-fund", _NPM_PACKAGE], folder)
    return ["node", "verify.mjs"]


def _in_go(folder: Path) -> list[str]:
    (folder / "go.mod").write_text(_GO_MODULE)
    _output(["go", "build", "-mod=mod", "-o", "verify-go", "verify.go"], folder)
    return [str(folder / "verify-go")]


def _in_java(folder: Path) -> list[str]:
    _output(["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=jars"], folder)
    return ["java", "-cp", "jars/*", "Verify.java"]


def _in_rust(folder: Path) -> list[str]:
    _output(["cargo", "build", "--quiet"], folder / "rust")
    return [str(folder / "rust" / "target" / "debug" / "verify")]


def _in_ruby(_: Path) -> list[str]:
    return ["ruby", "-Ivendored/ruby", "verify.rb"]


def _in_php(_: Path) -> list[str]:
    return ["php", "verify.php"]


_LIBRARIES: Final[Mapping[str, Callable[[Path], list[str]]]] = {
    "Python": _in_python, "JavaScript": _in_javascript, "Go": _in_go, "Java": _in_java, "Rust": _in_rust,
    "Ruby": _in_ruby, "PHP": _in_php,
}  # fmt: skip


def _output(command: Sequence[str], folder: Path, lines: str = "") -> str:
    """Run a command; return its output, or end with what it said."""
    ended = subprocess.run(
        command, cwd=folder, input=lines, check=False, capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    if ended.returncode:
        raise SystemExit(f"interop: {' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
