"""Write the version of `pyproject.toml` wherever else it stands: `make version TO=0.2.0`, or without TO.

`pyproject.toml` is the one place that a person edits. It also holds the version of the SDK that the
service needs. The other places are read without it: the SDK's own `pyproject.toml`, the API's contract, which is in the
wheel, and the AsyncAPI file. `make openapi` follows from them.
Exit codes: 0 written, 2 no version.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = "pyproject.toml"
PLACES = {
    FIRST: r'(?m)^(version = "|    "hookwire==)([^"]+)(")',
    "sdk/pyproject.toml": r'(?m)^(version = ")([^"]+)(")$',
    "app/web/api/contract.py": r'(?m)^(VERSION: Final = ")([^"]+)(")$',
    "openapi/asyncapi.yaml": r"(?m)^(  version: )(\S+)()$",
}
"""File, and the lines of it that hold the version, in the second group."""


def version_in(root: Path, place: str) -> str:
    """Return the first version that a file holds. Raise LookupError if it holds none."""
    return _versions_in(root, place)[0]


def _versions_in(root: Path, place: str) -> list[str]:
    found = [match[1] for match in re.findall(PLACES[place], (root / place).read_text("utf-8"))]
    if not found:
        raise LookupError(f"{place} has no line with a version")
    return found


def write(root: Path, version: str) -> list[str]:
    """Write a version to each place; return the places that had another."""
    stale = [place for place in PLACES if {*_versions_in(root, place)} != {version}]
    for place in stale:
        text = (root / place).read_text("utf-8")
        (root / place).write_text(re.sub(PLACES[place], rf"\g<1>{version}\g<3>", text), encoding="utf-8")
    return stale


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the version that the command line names, or that of `pyproject.toml`; return the exit code."""
    version = arguments[0] if arguments else version_in(root, FIRST)
    if len(arguments) > 1 or not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        print("version: name one version, such as 0.2.0 or 0.2.0rc1", file=sys.stderr)
        return 2
    for place in write(root, version):
        print(f"wrote {version} to {place}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
