import subprocess
import sys
from pathlib import Path

import pytest

from app.chaos.log import LineLog, LogError, read_log

REPOSITORY = Path(__file__).parents[3]
WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from app.chaos.log import LineLog
log = LineLog(Path(sys.argv[1]))
for n in range(3):
    log.write({"n": n})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_lines_survive_the_sudden_death_of_their_writer(tmp_path: Path) -> None:
    """OR-11."""
    path = tmp_path / "log"

    writer = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], cwd=REPOSITORY, check=False)

    assert (writer.returncode, list(read_log(path))) == (-9, [{"n": 0}, {"n": 1}, {"n": 2}])


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    """OR-11."""
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":2}\n{"n"')

    assert list(read_log(path)) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("before", [b"", b'{"n":1}\n', b'{"n":1}\n{"n"', b'{"n"'])
def test_a_writer_that_comes_back_cuts_the_torn_line_off(tmp_path: Path, before: bytes) -> None:
    """OR-11."""
    path = tmp_path / "log"
    path.write_bytes(before)

    with LineLog(path) as log:
        log.write({"n": "ключ"})

    assert list(read_log(path)) == [*[{"n": 1}][: before.count(b"\n")], {"n": "ключ"}]


@pytest.mark.parametrize("line", [b"{", b"[]", b"", b"\xff"])
def test_a_bad_line_in_the_middle_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"{}\n" + line + b"\n{}\n")

    with pytest.raises(LogError, match="line 2"):
        list(read_log(path))


def test_a_line_is_bounded(tmp_path: Path) -> None:
    with LineLog(tmp_path / "log") as log, pytest.raises(ValueError, match="65536"):
        log.write({"x": "x" * 65_536})
