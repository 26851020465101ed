"""The embedded database's data folder is lost while the service runs (FC-12)."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chaos.child import Child
from app.chaos.client import ChaosClient
from db.embedded.postmaster import read_record


@pytest.fixture
def data_dir(servers_folder: Path) -> Iterator[Path]:
    """Any account can reach it, as the one that runs the server for root must."""
    home = Path(tempfile.mkdtemp(dir=servers_folder))
    home.chmod(0o755)
    yield home / "data"
    shutil.rmtree(home)


@pytest.mark.parametrize("lost", ["postgres", "."], ids=["the data", "the whole folder"])
async def test_a_service_whose_data_are_lost_ends_and_makes_no_empty_database(
    lost: str, data_dir: Path, tmp_path: Path
) -> None:
    """FC-12: it says what is missing and what to do, once, and its next start says so too."""
    child = Child("lost", tmp_path, {"DATA_DIR": str(data_dir)})
    await child.start()
    client = ChaosClient(child.port, 60)
    accepted = await client.request("POST", "/topics/a/events", b"1")
    client.close()
    record = read_record(data_dir / "postgres")
    assert record is not None
    (data_dir / lost).rename(data_dir.parent / "lost")  # at once: the server makes files while others are deleted
    os.kill(record.pid, signal.SIGKILL)
    code = await child.ended(60)
    said = child.log_tail(1)
    is_made_anew = (data_dir / "postgres").exists()

    assert (accepted.status, code, is_made_anew) == (202, 1, False)
    assert said.startswith(f"hookwire: the data folder {data_dir} holds no PostgreSQL data any more")
    assert "Traceback" not in child.log_path.read_text()
    if lost == "postgres":
        await child.start(wait=False)
        assert (await child.ended(60), child.log_tail(1)) == (1, said)
