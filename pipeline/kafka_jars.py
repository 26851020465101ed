"""The jars of Spark's Kafka connector. Maven copies them once into the user's cache folder (PL-K01 to PL-K03)."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

__all__ = ["JarsMissing", "kafka_jars"]

_POM = Path(__file__).with_name("pom.xml")
_FETCH_SECONDS_MAX = 300
# Versions of kafka-clients and commons-pool2 with which each line of Spark was released; others may not work.
_COMPANIONS = {"4.0": ("3.9.0", "2.12.0"), "4.1": ("3.9.1", "2.12.1"), "4.2": ("3.9.2", "2.13.1")}


class JarsMissing(Exception):
    """The jars of the source "jvm" are not available; the text has the reason and the cure."""


def kafka_jars(cache: Path) -> tuple[Path, ...]:
    """Return the jars for the installed PySpark (PL-V04); fetch missing ones. Raises :class:`JarsMissing`.

    While one caller fetches, others wait.
    """
    folder = cache / f"spark-kafka-{pyspark.__version__}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "spark-kafka.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                _fetch_into(folder)
    return tuple(sorted(folder.glob("*.jar")))


def _fetch_into(folder: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix="spark-kafka-", dir=folder.parent))
    try:
        fetched = subprocess.run(  # noqa: S603 - the user's own Maven, our POM
            _command(draft), check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=_FETCH_SECONDS_MAX,
        )  # fmt: skip
        if fetched.returncode != 0:
            reason = next(
                (line for line in fetched.stdout.splitlines() if line.startswith("[ERROR]")), "no reason given"
            )
            raise JarsMissing(
                f"Maven could not fetch Spark's Kafka connector for {pyspark.__version__}: {reason[:500]}"
            )
        draft.rename(folder)
    except subprocess.TimeoutExpired:
        raise JarsMissing(f"Maven did not fetch Spark's Kafka connector within {_FETCH_SECONDS_MAX} s") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _command(draft: Path) -> list[str]:
    line = ".".join(pyspark.__version__.split(".")[:2])
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing(
            'Maven is missing, which fetches the jars of the source "jvm"; the source "python" needs none'
        )
    if line not in _COMPANIONS:
        raise JarsMissing(f'the source "jvm" was not tried with Spark {line} yet: set HOOKWIRE_PIPELINE_SOURCE=python')
    kafka, pool = _COMPANIONS[line]
    return [
        maven, "--batch-mode", "--quiet", "--file", str(_POM), "dependency:copy-dependencies",
        "-DincludeScope=runtime", f"-DoutputDirectory={draft}", f"-Dspark.version={pyspark.__version__}",
        f"-Dkafka.version={kafka}", f"-Dpool.version={pool}",
    ]  # fmt: skip
