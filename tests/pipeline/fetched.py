"""What the long storey fetches once into the user's cache folder: jars by Maven, moto and Polars by pip."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from scripts.servers.kafka_jars import cache_folder

POM = Path(__file__).with_name("pom.xml")
MOTO = ("moto[s3]==5.2.5", "flask>=3.1,<4", "flask-cors>=6,<7")
POLARS = "polars==2.1.0"
FETCH_SECONDS_MAX = 900


def lake_jars() -> list[str]:
    """Return the jars of Delta's package and of S3, which stay where Maven keeps them."""
    name = f"lake-jars-{sha256(POM.read_bytes()).hexdigest()[:8]}"
    jars = once(name, _resolve).joinpath("jars").read_text().strip().split(":")
    assert all(Path(jar).is_file() for jar in jars), f"delete {cache_folder() / name}: Maven has forgotten its jars"
    return jars


def moto_folder() -> Path:
    """Return the folder with moto's S3 server and what it needs."""
    return once("moto-5.2.5", _installed(*MOTO))


def polars_folder() -> Path:
    """Return the folder with Polars, a reader of Delta that is too large for everybody's environment."""
    return once("polars-2.1.0", _installed(POLARS))


def once(name: str, fetch: Callable[[Path], list[str]]) -> Path:
    """Return the folder of this name in the cache; several callers at once wait for the first one that fills it."""
    folder = cache_folder() / name
    with (cache_folder() / "long-storey.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder.parent))
            try:
                subprocess.run(fetch(draft), check=True, timeout=FETCH_SECONDS_MAX, stdout=subprocess.DEVNULL)
                draft.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return folder


def _resolve(draft: Path) -> list[str]:
    goal = ["dependency:build-classpath", "-DincludeScope=runtime", f"-Dmdep.outputFile={draft / 'jars'}"]
    return ["mvn", "--batch-mode", "--quiet", "--file", str(POM), *goal]


def _installed(*names: str) -> Callable[[Path], list[str]]:
    return lambda draft: [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(draft), *names]
