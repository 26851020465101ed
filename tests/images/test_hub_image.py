"""The image of the hub, built and run as an orchestrator runs it: no root, read-only files, reached from outside."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from app.settings.settings import load_settings
from hub.keys import new_text
from runtime.process import CLOSING_SECONDS
from scripts.images import newcomer
from scripts.images.container import Container, running
from scripts.images.image import Image, build, mounted
from scripts.images.network import Network, open_network
from tests.images.harness import LONG, left_of_the_build, zombies_of_an_orphan
from tests.waiting import block_poll

pytestmark = LONG

KEY = new_text()
WITH_KEY = {"HOOKWIRE_BOOTSTRAP_KEY": KEY}
GRACE_SECONDS = load_settings({}).drain_seconds + CLOSING_SECONDS + 5


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    build("hookwire-server")
    with mounted("hookwire-server") as image:
        yield image


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with open_network() as network:
        yield network


@pytest.fixture(scope="module")
def hub(image: Image, network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """What the README's line starts: the image's own command, with a first key, on a volume."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "volume").mkdir()
    with running(image, folder / "volume", folder / "log", network=network, environment=WITH_KEY) as container:
        until_ready(container, network)
        yield container


def until_ready(container: Container, network: Network) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            ask(network, "/readyz")
            return
        except OSError:
            assert container.process.poll() is None, container.log.read_text()
            if time.monotonic() > deadline:
                raise TimeoutError(container.log.read_text()) from None
            block_poll()


def ask(network: Network, path: str, body: bytes | None = None, key: str | None = KEY) -> dict[str, Any]:
    """Ask the hub from this machine, which is outside the container's network."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with urlopen(Request(f"http://{network.address}:8080{path}", data=body, headers=headers), timeout=60) as answer:
        decoded: dict[str, Any] = json.load(answer)
        return decoded


def test_what_was_needed_to_build_is_not_in_the_image(image: Image) -> None:
    assert left_of_the_build(image) == []


def test_it_takes_an_event_from_outside_its_network_with_the_first_key(hub: Container, network: Network) -> None:
    """GU-13: it listened on loopback, and wanted a key that only a second command could make."""
    event = ask(network, "/topics/orders.created/events", b'{"order": 1}')

    assert ask(network, f"/events/{event['id']}")["topic"] == "orders.created"


def test_it_asks_everybody_for_a_key(hub: Container, network: Network) -> None:
    with pytest.raises(HTTPError) as refused:
        ask(network, "/topics/orders.created/events", b"{}", key=None)
    refused.value.close()

    assert refused.value.code == 401


def test_its_log_names_the_first_key_and_not_its_text(hub: Container) -> None:
    log = hub.log.read_text()

    assert ("first_key_made" in log, KEY in log) == (True, False)


def test_it_is_not_root_and_its_files_are_read_only(hub: Container) -> None:
    tried = hub.run("sh", "-c", "id -u; touch /opt/hookwire/x /usr/x 2>&1 | grep -c 'Read-only file system'")

    assert tried.split() == ["10001", "2"]


def test_its_health_check_passes(hub: Container, image: Image) -> None:
    """A program that fails raises."""
    assert hub.run(*image.config["Healthcheck"]["Test"][1:]) == ""


def test_a_process_that_outlives_its_parent_leaves_no_zombie(hub: Container) -> None:
    assert zombies_of_an_orphan(hub) == []


def test_another_command_leaves_no_zombie_either(
    hub: Container, image: Image, network: Network, tmp_path: Path
) -> None:
    (tmp_path / "volume").mkdir()
    token = {"HOOKWIRE_TOKEN": KEY}
    with running(
        image, tmp_path / "volume", tmp_path / "log", "listen", "orders.*", network=network, environment=token
    ) as other:
        found = (zombies_of_an_orphan(other), other.process.poll())

    assert found == ([], None)


def test_it_ends_within_its_grace_and_starts_again_on_its_volume(image: Image, tmp_path: Path) -> None:
    """The second start has no key in its environment: the first one is stored."""
    (tmp_path / "volume").mkdir()
    with open_network() as network:
        with running(image, tmp_path / "volume", tmp_path / "log", network=network, environment=WITH_KEY) as first:
            until_ready(first, network)
            event = ask(network, "/topics/orders.created/events", b'{"order": 1}')
            codes = [first.stop(GRACE_SECONDS)]
        with running(image, tmp_path / "volume", tmp_path / "log", network=network) as second:
            until_ready(second, network)
            kept = ask(network, f"/events/{event['id']}")
            codes.append(second.stop(GRACE_SECONDS))

    assert (codes, kept["id"]) == ([0, 0], event["id"]), (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "set HOOKWIRE_BOOTSTRAP_KEY to what `hookwire keys generate` prints"),
        ({"HOOKWIRE_BOOTSTRAP_KEY": "changeme"}, "HOOKWIRE_BOOTSTRAP_KEY: must be hwk_"),
    ],
    ids=["no key", "a weak key"],
)
def test_without_a_good_first_key_it_ends_and_says_what_to_do(
    image: Image, tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    (tmp_path / "volume").mkdir()
    with (
        open_network() as network,
        running(image, tmp_path / "volume", tmp_path / "log", network=network, environment=environment) as container,
    ):
        code = container.process.wait(timeout=120)
    log = (tmp_path / "log").read_text()

    assert (code != 0, said in log, "Traceback" in log) == (True, True, False), log


def test_it_prints_a_key_without_a_volume_or_a_database(image: Image, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    with running(image, tmp_path / "volume", tmp_path / "log", "keys", "generate") as container:
        container.process.wait(timeout=60)

    assert re.fullmatch(r"hwk_[0-9a-f]{12}_[0-9a-f]{40}\n", (tmp_path / "log").read_text())


def test_a_newcomer_with_nothing_but_the_image_receives_an_event(image: Image) -> None:
    """The README's commands; `make dist-tests` runs those for a newcomer with nothing but Python."""
    line = newcomer.walk(image)

    assert ("orders.created" in line, '{"order": 1}' in line) == (True, True), line
