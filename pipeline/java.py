"""The Java that Spark runs on. It is checked before a session starts, because Spark's own error is a stack trace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["JavaMissing", "java_major"]

_OLDEST_MAJOR = 17  # PL-V03
_ANSWER_SECONDS = 60


class JavaMissing(Exception):
    """No suitable Java was found; the text is one sentence with the cure."""


def java_major() -> int:
    """Return the major version of JAVA_HOME's Java, else of the first on PATH. Raises :class:`JavaMissing`."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    major = _major_of(program) if program else 0
    if major < _OLDEST_MAJOR:
        found = f"{program} is Java {major}" if major else "there is none"
        raise JavaMissing(
            f"Spark needs Java {_OLDEST_MAJOR} or 21, and {found}: install a JRE (Debian: openjdk-17-jre-headless) "
            "or set JAVA_HOME"
        )
    return major


def _major_of(program: str) -> int:
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"], capture_output=True, text=True, check=True, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else 0
