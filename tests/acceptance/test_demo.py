"""The self-driving tour (`make demo`) ends by itself, shows the event wherever it can, and leaves nothing running."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from scripts.servers.given import GivenServer
from scripts.servers.kafka import KafkaServer
from scripts.servers.rabbitmq import RabbitServer

ROOT = Path(__file__).parents[2]
TOUR_SECONDS_MAX = 100


def tour(temporary: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the tour with its temporary folder below the test's own, which the database's account may pass."""
    return subprocess.run(
        [sys.executable, "-m", "scripts.demo"], cwd=ROOT, env={**os.environ, "TMPDIR": str(temporary), **environment},
        capture_output=True, text=True, timeout=TOUR_SECONDS_MAX, check=False,
    )  # fmt: skip


def lines_of(output: str, *beginnings: str) -> list[str]:
    """The first words of the lines that begin with one of these, in order."""
    lines = [line.strip() for line in output.splitlines()]
    return [beginning for line in lines for beginning in beginnings if line.startswith(beginning)]


def left_running(temporary: Path) -> list[str]:
    """Processes that still work below a folder."""
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(temporary) in command]


def test_the_tour_shows_one_event_in_a_webhook_in_kafka_and_in_amqp(
    servers_folder: Path, kafka: KafkaServer | GivenServer, rabbitmq: RabbitServer | GivenServer
) -> None:
    """WH-T05, decision 17; "Done when": ends by itself with exit 0, and every child with it."""
    told = {"HOOKWIRE_TEST_KAFKA": kafka.address, "HOOKWIRE_TEST_AMQP_URL": rabbitmq.address}
    done = tour(servers_folder, told)

    shown = lines_of(done.stdout, "AMQP ", "Kafka ", "webhook ", "ROLLBACK ", "COMMIT ", "422 ", "Done in ")
    place = ["AMQP ", "Kafka ", "webhook "]
    expected = [*place, *place, "ROLLBACK ", "COMMIT ", "422 ", "Done in "]
    assert (done.returncode, shown, done.stderr, left_running(servers_folder / "hookwire-demo-")) == (
        0, expected, "", [],
    ), done.stdout  # fmt: skip


def test_without_brokers_the_tour_shows_the_webhook_and_says_what_is_left_out(
    servers_folder: Path, free_port: int
) -> None:
    """The brokers' addresses are those of nobody."""
    nobody = f"127.0.0.1:{free_port}"
    done = tour(servers_folder, {"HOOKWIRE_TEST_KAFKA": nobody, "HOOKWIRE_TEST_AMQP_URL": f"amqp://{nobody}/"})

    shown = lines_of(done.stdout, "Apache Kafka is left out", "RabbitMQ is left out", "AMQP ", "Kafka ", "webhook ")
    last = done.stdout.splitlines()[-1]
    assert (done.returncode, shown, last.partition("Left out: ")[2]) == (
        0, ["Apache Kafka is left out", "RabbitMQ is left out", "webhook ", "webhook "], "Apache Kafka and RabbitMQ.",
    ), done.stdout + done.stderr  # fmt: skip
