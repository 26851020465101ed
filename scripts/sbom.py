"""Writes the bill of materials of the service, CycloneDX 1.6 in JSON, from `requirements/run.txt`: `make sbom`.

The file depends on the pins and our version alone: two runs on one commit write the same bytes. A component's hashes
are those of its distribution files, as they are pinned, so they stand at its reference of type `distribution`. Our SDK
is a component without hashes, because it is installed from the same checkout.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from app.web.api.contract import VERSION

__all__ = ["bill_of"]

_ROOT: Final = Path(__file__).parents[1]
_PINS: Final = _ROOT / "requirements" / "run.txt"
_PIN: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;]+)(?: ; (?P<marker>.+?))?(?: --hash=.*)?")

_LICENSES: Final = [{"license": {"id": "Apache-2.0"}}]
_SDK: Final = {
    "type": "library", "bom-ref": "hookwire-sdk", "name": "hookwire", "version": VERSION, "licenses": _LICENSES,
}  # fmt: skip


def bill_of(pins: str) -> dict[str, Any]:
    """Return the document for the text of a requirements file; raises ``ValueError`` for a line that is no pin with
    hashes.
    """
    components = [_SDK, *(_component(line) for line in _lines(pins))]
    root = {"type": "application", "bom-ref": "hookwire", "name": "hookwire", "version": VERSION}
    names = [component["bom-ref"] for component in components]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, pins)}",
        "version": 1,
        "metadata": {"component": {**root, "licenses": _LICENSES}},
        "components": components,
        "dependencies": [{"ref": "hookwire", "dependsOn": names}],
    }


def _lines(pins: str) -> list[str]:
    joined = pins.replace("\\\n", " ")
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def _component(line: str) -> Mapping[str, Any]:
    match = _PIN.fullmatch(line)
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    if match is None or not hashes:
        raise ValueError(f"this line is no pin with hashes: {line[:80]}")
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    purl = f"pkg:pypi/{name}@{match['version']}"
    marker = {"properties": [{"name": "python:marker", "value": match["marker"]}]} if match["marker"] else {}
    files = [{"alg": "SHA-256", "content": content} for content in hashes]
    return {
        "type": "library", "bom-ref": purl, "name": name, "version": match["version"], "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": files}], **marker,
    }  # fmt: skip


def main(target: Path) -> int:
    """Write the file; returns the exit code."""
    bill = bill_of(_PINS.read_text(encoding="utf-8"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {target}: {len(bill['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else _ROOT / "dist" / "hookwire.cdx.json"))
