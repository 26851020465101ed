"""Write the version of `pyproject.toml` wherever else it stands: `make version TO=0.2.0`, or without TO.

`pyproject.toml` is the one place that a person edits. The other places are read without it: the SDK's own
`pyproject.toml`, the API's contract, which is in the wheel, and the AsyncAPI file. `make openapi` follows from them.
Exit codes: 0 written, 2 no version.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = "pyproject.toml"
PLACES = {
    FIRST: r'(?m)^(version = ")([^"]+)(")$',
    "sdk/pyproject.toml": r'(?m)^(version = ")([^"]+)(")$',
    "app/web/api/contract.py": r'(?m)^(VERSION: Final = ")([^"]+)(")$',
    "openapi/asyncapi.yaml": r"(?m)^(  version: )(\S+)()$",
}
"""File, and the one line of it that holds the version, in its second group."""


def version_in(root: Path, place: str) -> str:
    """Return the version that a file holds. Raise LookupError if it holds none or several."""
    found = re.findall(PLACES[place], (root / place).read_text("utf-8"))
    if len(found) != 1:
        raise LookupError(f"{place} has {len(found)} lines with a version, not one")
    return str(found[0][1])


def write(root: Path, version: str) -> list[str]:
    """Write a version to each place; return the places that had another."""
    stale = [place for place in PLACES if version_in(root, place) != version]
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
