"""Asks for known advisories on every pinned requirement, by pip-audit in an environment of its own: `make audit`.

pip-audit ends with 0 where its database knows nothing of a package, as a mirror without advisories does. So each
package that it skipped counts here: what was not audited is said.

Exit codes: 0 all were audited, none has an advisory; 1 some have; 3 the advisories cannot be had.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["verdict_of"]

_ROOT: Final = Path(__file__).parents[1]
_HOME: Final = _ROOT / ".venv" / "audit"
_PROGRAM: Final = "pip-audit==2.10.1"
_FILES: Final = ("run", "demo", "dev")


def verdict_of(answers: Mapping[str, Mapping[str, Any] | None]) -> tuple[int, Sequence[str]]:
    """Return exit code and lines for pip-audit's result of each file; None: an unreadable result."""
    skipped, found = [], []
    for file, answer in answers.items():
        packages = [] if answer is None else answer["dependencies"]
        if not packages:
            skipped.append(f"{file}: pip-audit gave no answer")
        skipped += [f"{file}: {one['name']} was not audited: {one['skip_reason']}" for one in packages
                    if "skip_reason" in one]  # fmt: skip
        found += [
            f"{file}: {one['name']} {one['version']} has {flaw['id']}, mended in {', '.join(flaw['fix_versions'])}"
            for one in packages
            for flaw in one.get("vulns", ())
        ]
    if found:
        return 1, [*found, *skipped]
    if skipped:
        lines = skipped if len(skipped) <= 3 else [*skipped[:3], f"... and {len(skipped) - 3} more"]
        return 3, [*lines, "the advisory database cannot be reached from here: run `make audit` where PyPI's can be"]
    return 0, ["every pinned requirement was audited; no advisory is known"]


def _audited(file: str) -> Mapping[str, Any] | None:
    command = [str(_HOME / "bin" / "pip-audit"), "--format", "json", "--progress-spinner", "off", "--disable-pip",
               "--require-hashes", "--requirement", f"requirements/{file}.txt"]  # fmt: skip
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=900)
    try:
        answer: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return answer


def main() -> int:
    """Audit; returns the exit code."""
    if not (_HOME / "bin" / "pip-audit").exists():
        venv.create(_HOME, with_pip=True)
        install = [str(_HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", _PROGRAM]
        if subprocess.run(install, check=False, timeout=900).returncode:
            print(f"{_PROGRAM} cannot be installed", file=sys.stderr)
            return 3
    code, lines = verdict_of({file: _audited(file) for file in _FILES})
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
