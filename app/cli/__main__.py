"""Run the command ``hookwire`` as ``python -m app.cli``; ``spark-submit`` takes this file too.

A program that runs this file as a script puts its folder first in the search path. The folder ``pipeline`` in it would
hide the room ``pipeline``. So the folder is removed before anything is imported.
"""

import sys
from pathlib import Path


def _run() -> None:
    folder = Path(__file__).resolve().parent
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != folder]

    from app.cli.main import main

    main()


if __name__ == "__main__":
    _run()
