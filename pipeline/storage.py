"""Storage: files under a URI that the driver itself reads and writes, such as the table of runs.

``file:`` and a plain path are a folder of this machine; ``s3a:`` and ``s3:`` are S3 (``pipeline.s3``). Pyarrow handles
other schemes (``hdfs:``, ``gs:``, ``abfss:``). In a folder of this machine a new file appears whole or not at all, and
survives a crash of the machine. Other stores have their own guarantees. ``deltalake`` writes the tables' logs
(``pipeline.lake``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from pyarrow import ArrowException, NativeFile, fs

from pipeline.s3 import S3Options

__all__ = ["DiskFull", "LakeStorage", "StorageError", "full_uri", "is_uri", "reached"]

T = TypeVar("T")
_AT_ONCE: Final = 8
_READ_BYTES: Final = 1 << 20
_S3: Final = "s3a://"
_SECRET: Final = re.compile(r"://[^/?#]*:[^/?#]*@|^(?!s3a:).*\?")
_VERSION: Final = ("ETag", "VersionId", "Last-Modified")
_UNVERSIONED: Final = "null"
"""The version of an object that was there before its bucket got versions. Before that, S3 names none."""
_NOT_LINKED: Final = frozenset(
    (errno.EEXIST, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
)
"""The name is taken, or the file system has no hard links, as FAT and most stores behind FUSE."""


class StorageError(Exception):
    """A URI of an unknown kind, or a store that does not answer."""


class DiskFull(StorageError):
    """The disk of the lake is full."""

    def __init__(self) -> None:
        super().__init__("the disk is full: nothing of this batch is part of the lake; make room and run it again")

    @staticmethod
    def is_in(text: str) -> bool:
        """Return whether the text of an error names a full disk, as the operating system does."""
        return "No space left on device" in text


@contextmanager
def reached() -> Iterator[None]:
    """Turn an error of a disk or a store into :class:`StorageError`; a missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if DiskFull.is_in(str(error)):
            raise DiskFull from error
        raise StorageError(f"the lake cannot be read or written: {_first_line(error)}") from error


class LakeStorage:
    """The folder of a lake. ``uri`` is Spark's name for it; paths are relative to it and contain ``/``.

    A path may also be the URI of a file that a log names elsewhere in the same store.

    ``s3`` holds endpoint and credentials. ``delta_options`` are the same values for ``deltalake``. Raises
    :class:`StorageError`.
    """

    def __init__(self, uri: str, s3: S3Options | None = None) -> None:
        self.uri = full_uri(uri)
        if _SECRET.search(self.uri):  # the hub tells the URI to readers, and stores it
            raise StorageError("the lake's URI has a password or options: give them to the store's client instead")
        self.delta_options: dict[str, str] = {}
        try:
            if self.uri.startswith(_S3):
                self._root = self.uri.removeprefix(_S3)
                options = (s3 or S3Options()).placed(self._root.partition("/")[0])
                self.delta_options, self._system = options.delta(), options.arrow()
            else:
                self._system, self._root = fs.FileSystem.from_uri(self.uri)
        except (ArrowException, OSError) as error:
            raise StorageError(f"{uri} cannot be used: {_first_line(error)}") from error

    @property
    def is_local(self) -> bool:
        """Return whether the storage is a folder of this machine."""
        return isinstance(self._system, fs.LocalFileSystem)

    @property
    def has_versions(self) -> bool:
        """Return whether the store says which version of a file it has."""
        return self.uri.startswith(_S3)

    def spark_path(self, path: str) -> str:
        """Return the full name by which Spark reads or writes a path."""
        return full_uri(path) if is_uri(path) else f"{self.uri}/{path}"

    def relative(self, path: str) -> str:
        """Return a path relative to the lake, if it is a URI of a file in it."""
        return self.spark_path(path).removeprefix(f"{self.uri}/")

    @reached()
    def files(self, folder: str, *, recursive: bool = True) -> dict[str, int]:
        """Return path and size of every file below a folder, at any depth; empty if the folder does not exist."""
        return {path: info.size for path, info in self._found(folder, fs.FileType.File, recursive=recursive)}

    @reached()
    def folders(self, folder: str) -> list[str]:
        """Return the folders in a folder."""
        return [path for path, _ in self._found(folder, fs.FileType.Directory, recursive=False)]

    @reached()
    def info(self, path: str) -> fs.FileInfo:
        """Return size and time of the last change of a file; a missing file has neither."""
        return self._system.get_file_info(self._inside(path))

    def _found(self, folder: str, kind: fs.FileType, *, recursive: bool) -> Iterator[tuple[str, fs.FileInfo]]:
        found = self._system.get_file_info(
            fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True, recursive=recursive)
        )
        start = len(self._root.rstrip("/")) + 1
        return ((info.path[start:], info) for info in found if info.type is kind)

    def _inside(self, path: str) -> str:
        """Return the path by which the store itself knows a file."""
        if not is_uri(path):
            return f"{self._root}/{path}"
        scheme, other = (uri.partition(":")[0] for uri in (self.uri, full_uri(path)))
        if scheme != other:
            raise StorageError(f"{path} lies in another kind of store than {self.uri}")
        return full_uri(path).removeprefix(_S3).removeprefix("file://")

    @reached()
    def open(self, path: str) -> NativeFile:
        """Open a file for reading at any offset; the caller closes it. Raises FileNotFoundError."""
        return self._system.open_input_file(self._inside(path))

    @reached()
    def read(self, path: str) -> bytes:
        """Return all bytes of a small file. Raises FileNotFoundError."""
        with self._system.open_input_stream(self._inside(path)) as stream:
            content: bytes = stream.readall()
            return content

    @reached()
    def replace(self, path: str, content: bytes) -> None:
        """Write a small file; replace an existing one."""
        if self.is_local:
            os.replace(self._draft(path, content), self._local(path))
            self._sync(self._local(path).parent)
        else:
            self._put(path, content)

    @reached()
    def add(self, path: str, content: bytes) -> bool:
        """Write a small file into a folder of this machine; return whether it was written.

        It is not if it exists, or if the file system has no hard links.
        """
        draft = self._draft(path, content)
        try:
            os.link(draft, self._local(path))
        except OSError as error:
            if error.errno in _NOT_LINKED:
                return False
            raise
        finally:
            draft.unlink(missing_ok=True)
        self._sync(self._local(path).parent)
        return True

    @reached()
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; ignore missing ones."""
        for path in paths:
            try:
                self._system.delete_file(self._inside(path))
            except FileNotFoundError:
                continue

    def each(self, paths: Sequence[str], work: Callable[[str], T]) -> list[T]:
        """Return the results of ``work`` for all paths. Several calls run at once: a remote store answers slowly."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(work, paths))

    @reached()
    def sha256(self, path: str) -> str:
        """Return the SHA-256 of a file, in hexadecimal."""
        digest = hashlib.sha256()
        with self._system.open_input_stream(self._inside(path)) as stream:
            while part := stream.read(_READ_BYTES):
                digest.update(part)
        return digest.hexdigest()

    @reached()
    def version(self, path: str) -> str | None:
        """Return the store's own words on the present contents of a file; None if they do not tell two contents apart.

        An ETag may be an MD5, of which two contents can have the same. So the time of the last change is part of the
        words, which the store sets. In a folder a time can be set by anybody. Raises FileNotFoundError.
        """
        if not self.has_versions:
            return None
        with self._system.open_input_file(self._inside(path)) as file:
            words = file.metadata() or {}
        tag, version, at = (words.get(name, b"").decode() for name in _VERSION)
        version = "" if version == _UNVERSIONED else version
        return f"{tag} {version} {at}" if tag and at and not tag.startswith("W/") else None

    @reached()
    def move(self, path: str, target: str) -> None:
        """Move a file to another path; replace an existing target, ignore a missing file."""
        self._system.create_dir(f"{self._root}/{target}".rpartition("/")[0])
        try:
            self._system.move(self._inside(path), f"{self._root}/{target}")
        except FileNotFoundError:
            return

    @reached()
    def copy(self, path: str, target: str) -> None:
        """Give a file a second name; replace an existing target. A folder of this machine links it, others copy it."""
        if not self.is_local:
            self._system.copy_file(self._inside(path), self._inside(target))
            return
        self._local(target).parent.mkdir(parents=True, exist_ok=True)
        self._local(target).unlink(missing_ok=True)
        os.link(self._local(path), self._local(target))
        os.utime(self._local(target))  # a vacuum judges a file without a commit by its age
        self.make_durable([target])

    def make_durable(self, paths: Iterable[str]) -> None:
        """Flush to disk files that other programs wrote into a folder of this machine. Do nothing for other stores."""
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
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        return draft

    @staticmethod
    def _sync(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_uri(path: str) -> bool:
    """Return whether a path is a URI."""
    return "://" in path or path.startswith("file:")


def full_uri(uri: str) -> str:
    """Return the URI as Spark names it: Hadoop calls S3 ``s3a``, other tools ``s3``."""
    return (re.sub(r"^s3://", _S3, uri) if is_uri(uri) else Path(uri).absolute().as_uri()).rstrip("/")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:500]
