"""What the tests of both images share: their marks, what is left of a build, orphans and zombies."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.metadata import Distribution, distributions

import pytest
from packaging.requirements import Requirement

from scripts.images.container import Container
from scripts.images.image import Image
from tests.waiting import block_until

__all__ = ["LONG", "left_of_the_build", "zombies_of_an_orphan"]

LONG = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1800)]
_ORPHAN = ("sh", "-c", "(sleep 0.5 >/dev/null 2>&1 & echo $!)")
"""A command that prints the number of a process, and leaves it to process 1."""


def zombies_of_an_orphan(container: Container) -> list[str]:
    """Leave a process to process 1, and return what it has not collected a minute after that process ended."""
    process = container.run(*_ORPHAN)
    look = f"test -e /proc/{process} && echo there || echo gone"
    with suppress(TimeoutError):
        block_until(lambda: container.run("sh", "-c", look) == "gone")
    return container.zombies()


def left_of_the_build(image: Image, *extras: str) -> list[str]:
    """Return packages that the service does not need, and folders of the build, in the image."""
    (packages,) = image.root.glob("opt/hookwire/lib/python3*/site-packages")
    there = {_normal(one.metadata["Name"]): one for one in distributions(path=[str(packages)])}
    folders = [path for path in ("build", "opt/build", "root/.cache") if (image.root / path).exists()]
    return sorted(set(there) - _needed("hookwire-server", there, frozenset(extras))) + folders


def _needed(name: str, packages: dict[str, Distribution], extras: frozenset[str] = frozenset()) -> set[str]:
    """Return the packages that one needs, by their metadata."""
    found = {name}
    for line in packages[name].requires or ():
        one = Requirement(line)
        wanted = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras or {""})
        if wanted:
            found |= _needed(_normal(one.name), packages, frozenset(one.extras))
    return found


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()
