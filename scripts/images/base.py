"""The base of both images: the public one where a registry is reached, else a Debian with the same Python."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from scripts.images.command import output

__all__ = ["have_base"]

_PACKAGES: Final = "python-is-python3,python3-venv,python3-pip,ca-certificates"
_AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def have_base(name: str) -> None:
    """Have the image ``name``, such as ``python:3.11-slim-bookworm``, whose last word is a release of Debian."""
    full = f"docker.io/library/{name}"
    if _exists(full):
        return
    try:
        output("buildah", "pull", "--quiet", full, seconds=120)
    except RuntimeError as error:
        print(f"no registry of images: {str(error)[-200:]}; mmdebstrap makes {name}", flush=True)
        _bootstrap(full, name.rpartition("-")[2])


def _exists(image: str) -> bool:
    try:
        output("buildah", "inspect", "--type", "image", image)
    except RuntimeError:
        return False
    return True


def _bootstrap(image: str, release: str) -> None:
    """Make a Debian with Python and pip, which trusts the authorities that this machine trusts."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "base.tar"
        hook = f'cp {_AUTHORITIES} "$1{_AUTHORITIES}"'
        output(
            "mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", f"--customize-hook={hook}",
            release, str(archive), seconds=900,
        )  # fmt: skip
        container = output("buildah", "from", "scratch")
        output("buildah", "add", "--quiet", container, str(archive), "/", seconds=300)
        output("buildah", "config", "--env", f"PATH={_PATH}", container)
        output("buildah", "commit", "--quiet", container, image, seconds=300)
        output("buildah", "rm", container)
