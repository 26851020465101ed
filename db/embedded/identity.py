"""The identity of a data folder's cluster. A lost cluster must not silently become a new, empty one (FC-12)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from db.embedded.error import EmbeddedError

__all__ = ["ClusterIdentity", "ClusterLost"]

_IDENTIFIER = struct.Struct("=Q")  # the first field of pg_control, in the byte order of the machine that made it


class ClusterLost(EmbeddedError):
    """The cluster of the data folder is gone, or another one is in its place."""


class ClusterIdentity:
    """The identity of one data folder's cluster, in its file and, after the first connection, in memory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._file = data_dir / "cluster.id"
        self._known: int | None = None

    def check(self, folder: Path) -> None:
        """Raise :class:`ClusterLost` unless ``folder`` holds the known cluster. The first cluster is accepted."""
        found = _identifier(folder)
        if self._known is None:
            self._known = self._noted()
        if self._known not in (None, found):
            raise self.lost(found)

    def lost(self, found: int | None) -> ClusterLost:
        """Return the error for another cluster in the place of the known one; ``found`` None means no cluster."""
        instead = f"another PostgreSQL cluster ({found})" if found else "no PostgreSQL data any more"
        return ClusterLost(
            f"the data folder {self._data_dir} holds {instead}; it held the data of cluster {self._known} before",
            "Restore the data folder, or a backup of it. To begin with an empty database instead, remove "
            f"{self._file} and the rest of the data.",
        )

    def note(self, folder: Path) -> None:
        """Store the identifier of the running cluster, also for the next start."""
        self._known = _identifier(folder)
        if self._known is None or self._noted() == self._known:
            return
        draft = self._file.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(b"%d\n" % self._known)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._file)

    def _noted(self) -> int | None:
        try:
            return int(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise EmbeddedError(f"{self._file} holds no cluster's number", f"Remove {self._file}.") from None


def _identifier(folder: Path) -> int | None:
    """Return the cluster's identifier from its control file; None without one."""
    try:
        with (folder / "global" / "pg_control").open("rb") as file:
            return int(_IDENTIFIER.unpack(file.read(_IDENTIFIER.size))[0])
    except (FileNotFoundError, struct.error):
        return None
