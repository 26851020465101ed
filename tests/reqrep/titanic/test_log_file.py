"""The file of Titanic: torn, damaged, full, copied. Each test works on a real file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reqrep.titanic.log_file import LogFile
from reqrep.titanic.record import RecordKind, pack_opened
from reqrep.titanic.store import StoreError

KIND = RecordKind.REPLY
SYNCED = [b"first", b"", b"second" * 20]
TORN = [b"third", b"\x00" * 40, b"fourth"]


def written(path: Path, *batches: list[bytes]) -> LogFile:
    log = LogFile.create(path, (), pack_opened(0))
    for batch in batches:
        log.append([(KIND, payload) for payload in batch])
    return log


def payloads(log: LogFile) -> list[bytes]:
    return [record.payload for record in log.records() if record.kind is KIND]


def reopened(path: Path, content: bytes) -> list[bytes]:
    """What a process finds after a crash that left these bytes; it can append to them, and the next one finds that."""
    path.write_bytes(content)
    log = LogFile(path)
    found = payloads(log)
    log.append([(KIND, b"afterwards")])
    log.close()
    again = LogFile(path)
    assert payloads(again) == [*found, b"afterwards"]
    again.close()
    return found


@pytest.fixture
def synced_and_torn(tmp_path: Path) -> tuple[bytes, bytes]:
    """The bytes of a synced batch, and those of the batch behind it."""
    log = written(tmp_path / "whole", SYNCED)
    end = log.end
    log.append([(KIND, payload) for payload in TORN])
    log.close()
    content = (tmp_path / "whole").read_bytes()
    return content[:end], content[end:]


def test_a_batch_that_was_torn_at_any_byte_is_cut_and_all_before_stays(
    tmp_path: Path, synced_and_torn: tuple[bytes, bytes]
) -> None:
    """ZD-16: the end of the file is missing, or is zeros that were allocated, or old bytes of the disk."""
    before, batch = synced_and_torn
    rubbish = random.Random(7).randbytes(len(batch))
    for at in range(len(batch)):
        for rest in (b"", b"\x00" * (len(batch) - at), rubbish[at:]):
            found = reopened(tmp_path / "torn", before + batch[:at] + rest)
            assert (found[: len(SYNCED)], found == (SYNCED + TORN)[: len(found)]) == (SYNCED, True), at


def test_parts_of_a_torn_batch_that_reached_the_disk_out_of_order_are_cut(
    tmp_path: Path, synced_and_torn: tuple[bytes, bytes]
) -> None:
    """A disk may write the last page before the first: a sound record behind a hole was never acknowledged."""
    before, batch = synced_and_torn
    for at in range(len(batch) - 1):
        hole = batch[:at] + bytes([batch[at] ^ 0xFF]) + batch[at + 1 :]
        found = reopened(tmp_path / "torn", before + hole)
        assert found == (SYNCED + TORN)[: len(found)], at


def test_damage_before_a_later_batch_is_refused_at_any_byte_and_nothing_is_cut(
    tmp_path: Path, synced_and_torn: tuple[bytes, bytes]
) -> None:
    """What was acknowledged is never cut in silence: the file stays, and the error names the place."""
    before, batch = synced_and_torn
    path = tmp_path / "damaged"
    for at in range(len(before)):
        content = before[:at] + bytes([before[at] ^ 0x01]) + before[at + 1 :] + batch
        path.write_bytes(content)
        with pytest.raises(StoreError, match=r"is damaged at byte|first bytes are damaged"):
            LogFile(path)
        assert path.read_bytes() == content


def test_a_body_cannot_imitate_a_record(tmp_path: Path, synced_and_torn: tuple[bytes, bytes]) -> None:
    """A client sends the bytes of another file as its request, and the crash tears the record in front of them."""
    foreign, batch = synced_and_torn
    log = written(tmp_path / "own", SYNCED)
    end = log.end
    log.append([(KIND, foreign + batch)])
    log.close()
    content = (tmp_path / "own").read_bytes()
    torn = content[:end] + bytes([content[end] ^ 0xFF]) + content[end + 1 :]
    assert reopened(tmp_path / "own", torn) == SYNCED


def test_a_copy_replaces_the_file_in_one_step_and_damage_to_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path, SYNCED).close()
    copied = LogFile.create(path, [(KIND, b"one"), (KIND, b"two")], pack_opened(3))
    found = payloads(copied)
    copied.close()
    content = bytearray(path.read_bytes())
    content[content.index(b"two")] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged at byte"):
        LogFile(path)
    assert (found, sorted(each.name for each in tmp_path.iterdir())) == ([b"one", b"two"], ["log"])


def test_a_record_that_was_damaged_after_it_was_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = written(path, SYNCED)
    place = [record.place for record in log.records()][-1]
    content = bytearray(path.read_bytes())
    content[place.at + place.length - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged"):
        log.read(place)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 100], ids=["empty", "short", "foreign"])
def test_a_file_of_another_program_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(StoreError, match="no file of Titanic"):
        LogFile(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == content
