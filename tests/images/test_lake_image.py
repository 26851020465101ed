"""The image of the lake, built and run: it explains itself, and archives what a real Kafka has."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.images.container import running
from scripts.images.image import Image, build, mounted
from scripts.servers.kafka import KafkaServer
from tests.images.harness import LONG, left_of_the_build
from tests.pipeline.broker import make, ours, write

pytestmark = LONG


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    build("hookwire-lake")
    with mounted("hookwire-lake") as image:
        yield image


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def test_what_was_needed_to_build_is_not_in_the_image(image: Image) -> None:
    assert left_of_the_build(image, "spark", "demo") == []


def test_it_explains_itself(image: Image, lake: Path, tmp_path: Path) -> None:
    """GU-03: requirements without their markers contradicted each other, so it was built nowhere."""
    with running(image, lake, tmp_path / "log") as container:
        code = container.process.wait(timeout=120)
    log = (tmp_path / "log").read_text()

    assert (code, "Usage: hookwire pipeline" in log, "archive" in log) == (0, True, True), log


def test_it_archives_a_topic_of_kafka(image: Image, lake: Path, tmp_path: Path, kafka: KafkaServer) -> None:
    """On this machine's network, where the broker of the tests listens on loopback."""
    topic = f"lake-{secrets.token_hex(4)}"
    make(kafka, topic)
    write(kafka, topic, [ours(number) for number in range(1, 101)])
    settings = {
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap, "HOOKWIRE_PIPELINE_LAKE": "file:///lake",
        "HOOKWIRE_PIPELINE_MASTER": "local[1]",
    }  # fmt: skip
    command = ("pipeline", "archive", "--topic", topic, "--json")
    with running(image, lake, tmp_path / "log", *command, environment=settings) as container:
        code = container.process.wait(timeout=600)
    log = (tmp_path / "log").read_text()
    assert code == 0, log
    told = json.loads(log[log.index("{") :])

    assert (told["rows"], told["problems"], any((lake / "bronze").rglob("*.parquet"))) == (100, [], True), log
