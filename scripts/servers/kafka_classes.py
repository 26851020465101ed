"""Kafka's classes as the JVM likes them best: an archive made once, which halves what the start of a broker costs.

A suite that kills brokers starts dozens of them, and most of a start is reading and linking the same ten thousand
classes. The archive (48 MB) lies beside the jars in the user's cache folder.
"""

import fcntl
import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

from scripts.servers.java import java_program
from scripts.servers.kafka_jars import cache_folder, kafka_version


def class_archive(run_broker: Callable[[str], None]) -> Path | None:
    """Returns the archive for this Kafka and this Java, made when there is none yet; None for a JVM that makes none.

    `run_broker` starts a broker with one more option of the JVM and ends it in an orderly way. Several callers at once
    wait for the first.
    """
    archive = cache_folder() / f"kafka-{kafka_version()}-{_java_build():08x}.jsa"
    if not archive.exists():
        with (cache_folder() / "kafka-classes.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _make(archive, run_broker)
    return archive if archive.stat().st_size else None


def _make(archive: Path, run_broker: Callable[[str], None]) -> None:
    draft = archive.with_suffix(f".{os.getpid()}")
    run_broker(f"-XX:ArchiveClassesAtExit={draft}")
    draft.touch()  # stays empty where the JVM wrote nothing, so that no run tries again
    draft.rename(archive)


def _java_build() -> int:
    """Return the JVM's build: a JVM takes only its own archives."""
    return zlib.crc32(subprocess.run([java_program(), "-Xinternalversion"], capture_output=True, check=True).stdout)
