"""app/cli/__main__.py: the file as a script, as ``spark-submit`` runs it."""

import os
import subprocess
import sys
from pathlib import Path

import app.cli.__main__ as script

ROOT = Path(__file__).parents[3]


def test_a_script_beside_the_folder_pipeline_finds_the_room_pipeline(tmp_path: Path) -> None:
    """FP-13: Python puts the script's folder first in the search path, and the folder has a ``pipeline`` of its own."""
    ran = subprocess.run(
        [sys.executable, script.__file__, "pipeline", "archive", "--topic", "x"],
        cwd=tmp_path, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS" in ran.stderr) == (2, True)
