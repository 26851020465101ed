"""What Spark needs beside Python: a Java, and the JVM's Kafka source its jars; programs that only answer stand in."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pyspark
import pytest

from pipeline.java import JavaMissing, java_major
from pipeline.kafka_jars import JarsMissing, kafka_jars

POM = Path("pipeline/pom.xml")
MAVEN = """#!/bin/sh
for word in "$@"; do case $word in -DoutputDirectory=*) : >"${word#*=}/a.jar";; esac; done
printf '%s\\n' "$@" >"$(dirname "$0")/words"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The words that a Maven of ours was called with; it copies one jar."""
    program(tmp_path / "bin" / "mvn", MAVEN)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "bin" / "words"


@pytest.mark.parametrize(("answer", "major"), [("17.0.15", 17), ("21.0.1", 21), ("25", 25)])
def test_the_users_java_is_taken(answer: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PL-V03: JAVA_HOME's, whoever has made it."""
    program(tmp_path / "bin" / "java", f"#!/bin/sh\necho 'openjdk version \"{answer}\"' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_major() == major


@pytest.mark.parametrize(
    ("text", "found"), [("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"), ("exit 1", "none")]
)
def test_a_java_that_spark_does_not_run_on_is_one_sentence(
    text: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-T02, PL-V03: before a session is tried; the tests' own session fails with the same sentence."""
    program(tmp_path / "bin" / "java", f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=f"Spark needs Java 17 or 21, and .*{found}.*: install a JRE"):
        java_major()


@pytest.mark.parametrize(
    ("spark", "kafka", "pool"),
    [("4.0.0", "3.9.0", "2.12.0"), ("4.1.1", "3.9.1", "2.12.1"), ("4.2.0", "3.9.2", "2.13.1")],
)
def test_jars_are_those_of_the_spark_that_is_installed(
    spark: str, kafka: str, pool: str, maven: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL-K01, PL-K03, PL-V04: with the clients that this Spark was released with; fetched once."""
    monkeypatch.setattr(pyspark, "__version__", spark)
    first = kafka_jars(tmp_path / "cache")
    words = maven.read_text().splitlines()
    maven.unlink()
    assert {f"-Dspark.version={spark}", f"-Dkafka.version={kafka}", f"-Dpool.version={pool}"} < set(words)
    assert (kafka_jars(tmp_path / "cache"), maven.exists(), [jar.name for jar in first]) == (first, False, ["a.jar"])


@pytest.mark.usefixtures("maven")
def test_a_spark_whose_clients_nobody_knows_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PL-K03."""
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(JarsMissing, match=r'the source "jvm" was not tried with Spark 4\.3 yet'):
        kafka_jars(tmp_path / "cache")


def test_without_maven_the_other_source_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsMissing, match='the source "python" needs none'):
        kafka_jars(tmp_path / "cache")


def test_four_jars_and_what_spark_does_not_have() -> None:
    """PL-K02: no more than these, each without what it would bring, so that nothing lies twice on the class path."""
    names = {"p": "http://maven.apache.org/POM/4.0.0"}
    root = ET.parse(POM).getroot()
    found = root.findall("p:dependencies/p:dependency", names)
    assert [one.findtext("p:artifactId", namespaces=names) for one in found] == [
        "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2",
    ]  # fmt: skip
    assert all(one.findtext("p:exclusions/p:exclusion/p:artifactId", namespaces=names) == "*" for one in found)
    assert {one.findtext("p:version", namespaces=names) for one in found} == {
        "${spark.version}", "${kafka.version}", "${pool.version}",
    }  # fmt: skip


@pytest.mark.parametrize("file", sorted(Path("pipeline").rglob("*.py")), ids=str)
def test_no_job_reaches_behind_sparks_frames(file: Path) -> None:
    """PL-C05: neither the JVM's own objects nor RDDs. Sessions are made in one place, which asks for a master alone.

    There, a session is also asked how many cores it has, because no frame knows that without a job.
    """
    text = file.read_text(encoding="utf-8")
    if file == Path("pipeline/session.py"):
        text = text.replace("spark.sparkContext.defaultParallelism", "")
    assert not [word for word in ("._jvm", "._jsc", ".rdd", "sparkContext", ".master(") if word in text]
