"""The self-driving tour (`make demo`) ends by itself, shows the event wherever it can, and leaves nothing running."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

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


def copy_of_the_checkout(folder: Path) -> Path:
    """Copies what belongs to the repository and nothing that was made in it, such as .venv."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def left_running(temporary: Path) -> list[str]:
    """Processes that still work below a folder."""
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(temporary) in command]


def test_the_tour_shows_one_event_in_a_webhook_in_kafka_and_in_amqp(
    servers_folder: Path, kafka: KafkaServer | GivenServer, rabbitmq: RabbitServer | GivenServer
) -> None:
    """WH-T05: it ends by itself with exit 0, and every child with it."""
    told = {"HOOKWIRE_TEST_KAFKA": kafka.address, "HOOKWIRE_TEST_AMQP_URL": rabbitmq.address}
    done = tour(servers_folder, told)

    shown = lines_of(done.stdout, "AMQP ", "Kafka ", "webhook ", "ROLLBACK ", "COMMIT ", "422 ", "The tour took ")
    place = ["AMQP ", "Kafka ", "webhook "]
    expected = [*place, *place, "ROLLBACK ", "COMMIT ", "422 ", "The tour took "]
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_make_demo_needs_nothing_that_an_earlier_run_left(servers_folder: Path) -> None:
    """FT-17: in a fresh copy, with an empty home, it fetches its packages and Kafka, and no linters."""
    folder = Path(tempfile.mkdtemp(prefix="bare-", dir=servers_folder))
    folder.chmod(0o711)
    (folder / "home").mkdir()
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("HOOKWIRE_", "XDG_"))}
    bare = {
        "HOME": str(folder / "home"), "TMPDIR": str(folder),
        "MAVEN_OPTS": f"-Dmaven.repo.local={folder}/home/.m2/repository",
    }  # fmt: skip
    checkout = copy_of_the_checkout(folder / "checkout")
    done = subprocess.run(
        ["make", "demo"], cwd=checkout, env=kept | bare, capture_output=True, text=True, timeout=800, check=False
    )

    shown = lines_of(done.stdout, "Installing requirements/", "AMQP ", "Kafka ", "webhook ", "The tour took ")
    place = ["AMQP ", "Kafka ", "webhook "]
    linters = [name for name in ("ruff", "mypy", "pytest") if (checkout / ".venv" / "bin" / name).exists()]
    assert (done.returncode, shown, linters, left_running(folder)) == (
        0, ["Installing requirements/", *place, *place, "The tour took "], [], [],
    ), done.stdout + done.stderr  # fmt: skip
