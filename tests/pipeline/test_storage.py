"""Files of a lake: what a store says of them, and file systems that can do less."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.s3 import S3Options
from pipeline.storage import LakeStorage, StorageError

_AT = b"2026-01-15T09:00:00Z"


class _Opened:
    """A file on S3, with the words of its head alone."""

    def __init__(self, words: dict[str, bytes]) -> None:
        self._words = words

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def metadata(self) -> dict[str, bytes]:
        return self._words


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ({"ETag": b'"5d41"', "VersionId": b"v1", "Last-Modified": _AT}, '"5d41" v1 2026-01-15T09:00:00Z'),
        ({"ETag": b'"5d41"', "VersionId": b"null", "Last-Modified": _AT}, '"5d41"  2026-01-15T09:00:00Z'),
        ({"ETag": b'"5d41-3"', "Last-Modified": _AT}, '"5d41-3"  2026-01-15T09:00:00Z'),
        ({"ETag": b'"5d41"', "VersionId": b"v1"}, None),
        ({"VersionId": b"null", "Last-Modified": _AT}, None),
        ({"ETag": b'W/"5d41"', "Last-Modified": _AT}, None),
        ({}, None),
    ],
    ids=["all", "before versions", "in parts", "no time", "no tag", "weak", "nothing"],
)
def test_the_words_of_a_store_count_only_if_they_tell_two_contents_apart(
    words: dict[str, bytes], version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GP-09: a bucket without versions says "null" of each; and two contents can have one MD5, which is the ETag."""
    store = LakeStorage("s3a://lakes/one", S3Options("http://127.0.0.1:9", access_key="a", secret_key="b"))

    class System:
        def open_input_file(self, _: str) -> _Opened:
            return _Opened(words)

    monkeypatch.setattr(store, "_system", System())
    assert store.version("bronze/a.parquet") == version


def test_in_a_folder_only_bytes_count(tmp_path: Path) -> None:
    """GP-09: anybody can set the time of a file."""
    (tmp_path / "a").write_bytes(b"1")
    assert LakeStorage(str(tmp_path)).version("a") is None


def linking(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Let each hard link fail with this error."""

    def refused(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refused)


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EEXIST])
def test_a_file_is_not_added_where_no_link_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """GP-11: FAT, shares and stores behind FUSE have no hard links. No draft is left."""
    linking(monkeypatch, code)
    assert LakeStorage(str(tmp_path)).add("log/1.json", b"{}") is False
    assert list((tmp_path / "log").iterdir()) == []


def test_an_error_of_the_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linking(monkeypatch, errno.EIO)
    with pytest.raises(StorageError, match="cannot be read or written"):
        LakeStorage(str(tmp_path)).add("log/1.json", b"{}")
    assert list((tmp_path / "log").iterdir()) == []


def test_a_store_may_take_a_minute_to_answer() -> None:
    """GP-09: a list of 10,000 files took longer than the 3 s that pyarrow allows, so an audit ended with 3."""
    _, (options,) = S3Options("http://127.0.0.1:9", access_key="a", secret_key="b").arrow().__reduce__()
    assert options["request_timeout"] == 60
