"""Held: a table as an audit finds it. Its log is read once, and each part of the audit judges the same state."""

from __future__ import annotations

from deltalake import DeltaTable

from pipeline.lake import Table

__all__ = ["HeldTable"]


class HeldTable(Table):
    """A table that is opened once. Commits that are made later are not part of it."""

    _held: DeltaTable | None = None

    def opened(self, version: int | None = None) -> DeltaTable | None:
        """Return the table as it was at the first call, or at another version. Raises :class:`LakeDamaged`."""
        if version is not None and (self._held is None or self._held.version() != version):
            return super().opened(version)
        if self._held is None:
            self._held = super().opened()
        return self._held
