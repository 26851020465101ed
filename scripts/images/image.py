"""An image: built from its Dockerfile, mounted, and what it says of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.images.base import have_base
from scripts.images.command import output

__all__ = ["DOCKERFILES", "Image", "build", "mounted"]

_ROOT: Final = Path(__file__).parents[2]
_BUILD_SECONDS_MAX: Final = 1_800.0
DOCKERFILES: Final = {"hookwire-server": "Dockerfile", "hookwire-lake": "Dockerfile.lake"}


@dataclass(frozen=True, slots=True)
class Image:
    """A mounted image. ``config`` is that of Docker: Entrypoint, Cmd, Env, User, WorkingDir, Volumes, ExposedPorts."""

    name: str
    root: Path
    config: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the image sets."""
        return dict(line.split("=", 1) for line in self.config["Env"])

    def words(self, *command: str) -> list[str]:
        """Return the whole command: the entrypoint, and the image's own command unless another is given."""
        return [*self.config["Entrypoint"], *(command or self.config["Cmd"])]

    def user_and_group(self) -> tuple[int, int]:
        """Return the numbers of the image's user, as a runtime finds them in the image."""
        for line in (self.root / "etc" / "passwd").read_text().splitlines():
            _, _, user, group, *_ = line.split(":")
            if user == self.config["User"]:
                return int(user), int(group)
        raise RuntimeError(f"{self.name}: /etc/passwd has no user {self.config['User']}")

    def megabytes(self, *folders: str) -> float:
        """Return the size of the files in some folders of the image, given as patterns."""
        found = {path for pattern in folders for top in self.root.glob(pattern) for path in [top, *top.rglob("*")]}
        return sum(path.lstat().st_size for path in found if path.is_file() and not path.is_symlink()) / 1e6


def build(name: str) -> None:
    """Build the image from the checkout; layers that did not change are taken from the build before."""
    dockerfile = _ROOT / DOCKERFILES[name]
    for base in sorted(set(re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE))):
        have_base(base)
    output(
        "buildah", "bud", "--isolation", "chroot", "--pull-never", "--format", "docker", "--layers", "--tag", name,
        "--file", str(dockerfile), str(_ROOT), seconds=_BUILD_SECONDS_MAX,
    )  # fmt: skip


@contextmanager
def mounted(name: str) -> Iterator[Image]:
    """Mount the image's files while the block runs."""
    config = json.loads(output("buildah", "inspect", "--type", "image", name))["Docker"]["config"]
    container = output("buildah", "from", "--pull-never", name)
    try:
        yield Image(name, Path(output("buildah", "mount", container)), config)
    finally:
        output("buildah", "rm", container)
