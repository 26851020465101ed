"""docker-compose.yml and Dockerfile, checked without an engine: by schema, by rules, by running what they start."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from app.settings.settings import PREFIX, Settings, load_settings
from runtime.process import CLOSING_SECONDS

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
HERE = Path(sys.executable).parent


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return loaded


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's (instruction, rest), continued lines joined, comments left out."""
    return instructions_of("Dockerfile")


def instructions_of(name: str) -> list[tuple[str, str]]:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, rest in lines]


def substituted(value: str) -> str:
    """What compose makes of ${NAME:-default} in an empty shell."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


# --- the compose file -------------------------------------------------------------------------------------------


def test_it_follows_the_schema_of_compose_files() -> None:
    command = [HERE / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    verdict = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert verdict.returncode == 0, verdict.stdout


def test_every_service_says_when_it_is_healthy_and_whom_it_waits_for(services: dict[str, Any]) -> None:
    """EC-12. The brokers are optional: they come with their profile."""
    shape = {
        name: (service.get("profiles", []), "test" in service.get("healthcheck", {}), service.get("depends_on", {}))
        for name, service in services.items()
    }
    healthy = {"condition": "service_healthy"}
    optional = {**healthy, "required": False}
    assert shape == {
        "hookwire": ([], True, {"postgres": healthy, "kafka": optional, "rabbitmq": optional}),
        "postgres": ([], True, {}),
        "kafka": (["kafka"], True, {}),
        "rabbitmq": (["amqp"], True, {}),
        "spark-master": (["lake"], True, {}),
        "spark-worker": (["lake"], True, {"spark-master": healthy}),
        "archive": (["lake"], True, {"spark-worker": healthy, "kafka": optional}),
    }


def test_images_are_pinned_and_ports_stay_on_loopback(services: dict[str, Any]) -> None:
    images = [service["image"] for service in services.values() if "build" not in service]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert all(re.search(r":\d", image) for image in images)
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_volume_that_is_mounted_is_declared(services: dict[str, Any]) -> None:
    declared = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["volumes"]
    mounted = {volume.partition(":")[0] for service in services.values() for volume in service["volumes"]}
    assert mounted == set(declared)


def test_the_compose_file_names_only_settings_that_exist(services: dict[str, Any]) -> None:
    """SC-23: a name that we do not know would stop the container."""
    given = [*services["hookwire"]["environment"], *services["archive"]["environment"]]
    names = {name.removeprefix(PREFIX).lower() for name in given}
    assert names - set(Settings.model_fields) == set()


def test_a_soft_stop_has_the_time_that_it_takes(services: dict[str, Any]) -> None:
    grace_seconds = int(services["hookwire"]["stop_grace_period"].removesuffix("s"))
    assert grace_seconds > load_settings({}).drain_seconds + CLOSING_SECONDS


# --- the Dockerfile ---------------------------------------------------------------------------------------------


def test_the_image_is_built_in_stages_and_runs_as_nobody_special(instructions: list[tuple[str, str]]) -> None:
    stages = [rest for word, rest in instructions if word == "FROM"]
    users = [rest for word, rest in instructions if word == "USER"]
    assert (len(stages), len({stage.split()[0] for stage in stages}), users) == (2, 1, ["10001"])


def test_what_is_copied_exists_and_reaches_the_build(instructions: list[tuple[str, str]]) -> None:
    every = [*instructions, *instructions_of("Dockerfile.lake")]
    copied = {source for word, rest in every if word == "COPY" and "--from" not in rest for source in rest.split()[:-1]}
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert sorted(copied) == sorted(allowed)
    assert [source for source in copied if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.lake"])
def test_every_room_is_in_the_image(name: str) -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks", "tests"}
    copied = {rest.split()[0] for word, rest in instructions_of(name) if word == "COPY"}
    assert packages - copied == set()


# --- the same start, without an engine --------------------------------------------------------------------------


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hw-"))
    yield folder
    shutil.rmtree(folder)


def test_the_container_s_command_gets_healthy_and_stops_softly(
    services: dict[str, Any],
    instructions: list[tuple[str, str]],
    database_url: str,
    data_dir: Path,
    free_port: int,
) -> None:
    """ENTRYPOINT, command, environment and health check as written; only addresses are those of this machine."""
    service = services["hookwire"]
    port = urlsplit(f"//{service['environment']['HOOKWIRE_LISTEN']}").port
    given = {name: substituted(value) for name, value in service["environment"].items() if value is not None}
    assert urlsplit(given["HOOKWIRE_DATABASE_URL"]).hostname in services
    given |= {
        "HOOKWIRE_LISTEN": f"127.0.0.1:{free_port}",
        "HOOKWIRE_DATABASE_URL": database_url,
        "HOOKWIRE_DATA_DIR": str(data_dir),
        "PATH": f"{HERE}{os.pathsep}{os.environ['PATH']}",
    }
    init, _, *entry = yaml.safe_load(next(rest for word, rest in instructions if word == "ENTRYPOINT"))
    assert init == "tini", "process 1 of the image, which this machine may not have"
    health = [word.replace(f":{port}/", f":{free_port}/") for word in service["healthcheck"]["test"][1:]]
    container = subprocess.Popen([*entry, *service["command"]], cwd=data_dir, env=given, stderr=subprocess.PIPE)
    try:
        wait_until_healthy(health, container)
    finally:
        container.send_signal(signal.SIGTERM)
        _, said = container.communicate(timeout=60)
    assert container.returncode == 0, said.decode()


def wait_until_healthy(check: list[str], container: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    environment = {"PATH": f"{HERE}{os.pathsep}{os.environ['PATH']}"}
    while subprocess.run(check, env=environment, check=False, capture_output=True, timeout=30).returncode != 0:
        assert container.poll() is None, container.stderr.read().decode() if container.stderr else ""
        if time.monotonic() > deadline:
            raise TimeoutError("the service did not become healthy")
