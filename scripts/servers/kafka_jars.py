"""The jars of Apache Kafka, fetched once by Maven into the user's cache folder (43 MB, about half a minute)."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from scripts.servers.missing import MissingServerError

_POM = Path(__file__).with_name("pom.xml")
_FETCH_SECONDS_MAX = 600


def kafka_version() -> str:
    """Returns the version that pom.xml names; it is written nowhere else."""
    version = ElementTree.parse(_POM).findtext(".//{*}kafka.version")
    assert version, "pom.xml names the version"
    return version


def cache_folder() -> Path:
    """Return the folder that keeps jars from run to run, for this account. Make it when it is missing."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hookwire"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kafka_jars() -> Path:
    """Returns the folder that holds the broker's jars, fetching them when it is not there yet.

    Several callers at once wait for the first. Raises MissingServerError when Maven is absent or cannot fetch.
    """
    cache = cache_folder()
    jars = cache / f"kafka-{kafka_version()}"
    if jars.exists():
        return jars
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            _fetch_into(jars)
    return jars


def _fetch_into(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingServerError("Maven, which fetches Apache Kafka, is missing: run scripts/install-servers.")
    draft = Path(tempfile.mkdtemp(prefix="kafka-", dir=jars.parent))
    command = [maven, "--batch-mode", "--quiet", "--file", str(_POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={draft}"]
    try:
        fetched = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_SECONDS_MAX,
        )
        if fetched.returncode != 0:
            raise MissingServerError(f"Maven could not fetch Apache Kafka {kafka_version()}:\n{fetched.stdout[-2000:]}")
        draft.rename(jars)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
