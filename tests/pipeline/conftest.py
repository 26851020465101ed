"""One Spark session for each half of the tests of the pipeline, which runs in one process (tests/shares.py; PL-T02).

A missing Java fails them with one sentence. The session has the jars of the JVM's Kafka source, so that both sources
can be tried side by side.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from py4j.java_gateway import JavaClass, JavaMember, JVMView

from scripts.servers.kafka_jars import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each statement runs a few times, so the second compiler of a JVM, its collector's threads and the check of each class
# never pay. The first options are for the JVM that composes Spark's command line, both for every JVM that runs Spark.
_CHEAP_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# With one compiler a JVM has room for 48 MB of code. When they are full, it sweeps and compiles the same again. In a
# small young generation it copies what lives for the length of a query.
_ROOMY_JVM = "-XX:ReservedCodeCacheSize=256m -Xms700m -Xmn400m"
os.environ |= {
    "SPARK_LAUNCHER_OPTS": _CHEAP_JVM,
    "SPARK_SUBMIT_OPTS": f"{_CHEAP_JVM} {_ROOMY_JVM}",
    "SPARK_CONF_DIR": str(Path(__file__).with_name("spark-conf")),
}
# Its workers are forks that have imported what our tasks need.
_DAEMON = {"spark.python.daemon.module": "tests.pipeline.worker_daemon"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session on two cores, made once; with another Spark than ours it has the Python source only."""
    from pipeline.java import JavaMissing, java_major
    from pipeline.kafka_jars import JarsMissing, kafka_jars
    from pipeline.session import SessionOptions, spark_session

    try:
        java_major()
        jars = kafka_jars(cache_folder()) if pyspark.__version__.startswith("4.0.") else ()
    except (JavaMissing, JarsMissing) as missing:
        pytest.fail(str(missing), pytrace=False)
    with pytest.MonkeyPatch.context() as patch:
        for view in (JVMView, JavaClass):
            patch.setattr(view, "__getattr__", _remembered(getattr(view, "__getattr__")))  # noqa: B009 - mypy knows none
        more = _DAEMON | {"spark.driver.extraClassPath": _without_defaults(tmp_path_factory.mktemp("hadoop"))}
        session = spark_session(SessionOptions("tests", master="local[2]", jars=jars, more=more))
        yield session
        session.stop()


def _without_defaults(folder: Path) -> str:
    """Let Hadoop find empty files of defaults there; its code has the same ones for files on a disk.

    Spark compresses the origin of each of a thousand defaults, one by one, for each scan: a third of a small query.
    """
    for name in ("core", "hdfs", "mapred", "yarn"):
        (folder / f"{name}-default.xml").write_text("<configuration/>")
    return str(folder)


def _remembered(looked_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Ask the JVM once for each class and method: it looks through 300 jars for a name that is no class."""

    def found(self: Any, name: str) -> Any:
        member = looked_up(self, name)
        if isinstance(member, JavaClass | JavaMember):
            self.__dict__[name] = member
        return member

    return found


@pytest.fixture
def lake_uri(tmp_path: Path) -> str:
    """An empty lake in a folder of the test's own."""
    return (tmp_path / "lake").as_uri()


@pytest.fixture
def topic() -> str:
    """A Kafka topic's name that only this test knows."""
    return f"lake.{secrets.token_hex(4)}"
