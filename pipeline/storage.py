"""Files under a URI, for what the driver itself reads and writes: the table of runs, a table's files (PL-C02).

``file:`` and a plain path are a folder of this machine; other schemes (``s3a:``, ``hdfs:``, ``gs:``) are pyarrow's. On
a folder of this machine a new file appears whole or not at all, and survives a crash of the machine; elsewhere that is
as good as the store's own promises. A table's log is ``deltalake``'s (``pipeline.lake``).
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from pyarrow import ArrowException, NativeFile, fs

__all__ = ["LakeStorage", "StorageError"]

T = TypeVar("T")
_AT_ONCE: Final = 8
_READ_BYTES: Final = 1 << 20


class StorageError(Exception):
    """A URI that nobody understands, or a store that does not answer."""


class LakeStorage:
    """``uri`` is how Spark names the folder; paths are relative to it and written with ``/``."""

    def __init__(self, uri: str) -> None:
        self.uri = (Path(uri).absolute().as_uri() if "://" not in uri and not uri.startswith("file:") else uri).rstrip(
            "/"
        )
        try:
            # Hadoop calls it s3a, pyarrow s3.
            self._system, self._root = fs.FileSystem.from_uri(self.uri.replace("s3a://", "s3://", 1))
        except (ArrowException, OSError) as error:
            raise StorageError(f"{uri} cannot be used: {error}") from error

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return isinstance(self._system, fs.LocalFileSystem)

    def spark_path(self, path: str) -> str:
        """The full name that Spark reads or writes a path by."""
        return f"{self.uri}/{path}"

    def files(self, folder: str) -> dict[str, int]:
        """Path and size of every file below a folder, however deep; none if it is not there."""
        return {path: info.size for path, info in self._found(folder)}

    def _found(self, folder: str) -> Iterator[tuple[str, fs.FileInfo]]:
        found = self._system.get_file_info(
            fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True, recursive=True)
        )
        start = len(self._root.rstrip("/")) + 1
        return ((info.path[start:], info) for info in found if info.type is fs.FileType.File)

    def open(self, path: str) -> NativeFile:
        """A file for reading at any place; close it. Raises FileNotFoundError."""
        return self._system.open_input_file(f"{self._root}/{path}")

    def read(self, path: str) -> bytes:
        """The whole of a small file; raises FileNotFoundError."""
        with self._system.open_input_stream(f"{self._root}/{path}") as stream:
            content: bytes = stream.readall()
            return content

    def replace(self, path: str, content: bytes) -> None:
        """Write a small file, over one that is there."""
        if self.is_local:
            os.replace(self._draft(path, content), self._local(path))
            self._sync(self._local(path).parent)
        else:
            self._put(path, content)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; one that is not there any more is none of our business."""
        for path in paths:
            try:
                self._system.delete_file(f"{self._root}/{path}")
            except FileNotFoundError:
                continue

    def each(self, paths: Sequence[str], work: Callable[[str], T]) -> list[T]:
        """Do the same with several files at once; a store far away answers slowly and in parallel."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(work, paths))

    def sha256(self, path: str) -> str:
        """The SHA-256 of a file, in hexadecimal."""
        digest = hashlib.sha256()
        with self._system.open_input_stream(f"{self._root}/{path}") as stream:
            while part := stream.read(_READ_BYTES):
                digest.update(part)
        return digest.hexdigest()

    def move(self, path: str, target: str) -> None:
        """A file to another place, over one that is there; one that is not there any more is left out."""
        self._system.create_dir(f"{self._root}/{target}".rpartition("/")[0])
        try:
            self._system.move(f"{self._root}/{path}", f"{self._root}/{target}")
        except FileNotFoundError:
            return

    def make_durable(self, paths: Iterable[str]) -> None:
        """What others wrote into a folder of this machine is on disk after this; stores are so by themselves."""
        if self.is_local:
            folders = set()
            for path in paths:
                self._sync(self._local(path))
                folders |= set(self._local(path).parents[: path.count("/") + 1])
            for folder in folders:
                self._sync(folder)

    def _put(self, path: str, content: bytes) -> None:
        with self._system.open_output_stream(f"{self._root}/{path}") as stream:
            stream.write(content)

    def _local(self, path: str) -> Path:
        return Path(self._root) / path

    def _draft(self, path: str, content: bytes) -> Path:
        target = self._local(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return draft

    @staticmethod
    def _sync(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
