"""A log of JSON lines that survives the death of its writer (OR-11).

Each line leaves the process in one write, at once; a SIGKILL can only tear the last line.  Readers drop a torn last
line, and a writer that opens the file again cuts it off first.  One writer per file.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_LINE_BYTES_MAX = 64 * 1024


class LogError(ValueError):
    """A log holds a line that is not one of its records."""


class LineLog:
    """Appends records; use it as a context manager or close it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._cut_torn_line()

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record; when this returns, it outlives the process.  ValueError above 64 KiB."""
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        if len(line) > _LINE_BYTES_MAX:
            raise ValueError(f"a log line has at most {_LINE_BYTES_MAX} bytes")
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes of a log line were written")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cut_torn_line(self) -> None:
        size_bytes = os.fstat(self._descriptor).st_size
        start = max(0, size_bytes - _LINE_BYTES_MAX)
        tail = os.pread(self._descriptor, _LINE_BYTES_MAX, start)
        os.ftruncate(self._descriptor, start + tail.rfind(b"\n") + 1)


def read_log(path: Path) -> Iterator[dict[str, object]]:
    """Yield the whole records of a log, one by one.  LogError names the line that is none."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return  # torn: its writer died
            try:
                record = json.loads(line)
            except ValueError as error:
                raise LogError(f"{path}, line {number}: not JSON") from error
            if not isinstance(record, dict):
                raise LogError(f"{path}, line {number}: not a JSON object")
            yield record
