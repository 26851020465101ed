"""The Java that runs Apache Kafka and Maven."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from scripts.servers.missing import MissingServerError

_OLDEST_MAJOR = 17  # what a Kafka 4 broker needs (PL-K08)


def java_program() -> str:
    """Returns the path of a Java 17 or newer: JAVA_HOME's if that is set, else the first on PATH.

    Raises MissingServerError when there is none.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    major = _major_version(program) if program else 0
    if not program or major < _OLDEST_MAJOR:
        found = f"found {major}" if major else "found none"
        raise MissingServerError(f"Java {_OLDEST_MAJOR} or newer is missing ({found}): run scripts/install-servers.")
    return program


def _major_version(program: str) -> int:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else 0
