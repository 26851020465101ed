"""Take-over: the claims of a dead process of this host and data folder are due at once (ADR 91)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final

import structlog
from typing_extensions import override

from app.bridges.claim_record import ClaimRecord, DeadClaims, dead_claims
from db.errors import DatabaseError
from db.pool import Database
from runtime.periodic import Periodic

__all__ = ["TakeOver", "installation_of"]

_log = structlog.get_logger(__name__)
_LOOK_SECONDS: Final = 1.0


class TakeOver(Periodic):
    """Keeps the record of this process, and looks for records of dead ones. ``mark_due`` gets the subscriptions whose
    deliveries are due.
    """

    name = "take-over"
    expected: ClassVar = (DatabaseError, OSError)
    failure = "take_over_waits"

    def __init__(
        self, database: Database, folder: Path, incarnation: str, mark_due: Callable[[Sequence[int]], None]
    ) -> None:
        self._database = database
        self._folder = folder
        self._installation = installation_of(incarnation, database.options.url)
        self._mark_due = mark_due
        self._record: ClaimRecord | None = None
        super().__init__(_LOOK_SECONDS if self._may_have_records() else None)

    def note(self, fences: Collection[int]) -> None:
        """Note claims of this process. If the disk refuses them, the process goes on without a record."""
        if self._record is None:
            return
        try:
            self._record.note(fences)
        except OSError as error:
            self._tell_no_record(error)
            self._remove_record()

    @override
    async def run(self) -> None:
        """Look until stopped, and remove the own record: the worker was stopped before, and has no claims. After a hard
        stop the record stays, for whoever finds that this process has ended.
        """
        await super().run()
        self._remove_record()

    def close(self) -> None:
        """Remove a record without claims: a start that was refused leaves nothing behind."""
        if self._record is not None and self._record.is_empty:
            self._remove_record()

    @override
    async def once(self) -> None:
        """Take over what is left of each dead process."""
        with closing(dead_claims(self._folder, self._installation)) as found:
            for dead in found:
                await self._take(dead)

    async def _take(self, dead: DeadClaims) -> None:
        rows = await self._database.fetch("delivery.take_over", dead.fences) if dead.fences else ()
        dead.remove()
        if rows:
            _log.info("claims_taken_over", deliveries=len(rows))
            self._mark_due(list(dict.fromkeys(row["subscription_id"] for row in rows)))

    def _remove_record(self) -> None:
        record, self._record = self._record, None
        try:
            if record is not None:
                record.remove()
        except OSError as error:
            _log.warning("claim_record_not_removed", folder=str(self._folder), error=str(error))

    def _may_have_records(self) -> bool:
        """Make the record of this process; without one, its claims wait for their lease after a crash. Return False
        where nobody makes a record: the server of a network may hang, and each look with it.
        """
        try:
            self._record = ClaimRecord.create(self._folder, self._installation)
        except OSError as error:
            self._tell_no_record(error)
            return True
        if self._record is None:
            _log.info("no_claim_record", folder=str(self._folder), reason="a lock on this file system proves no death")
        return self._record is not None

    def _tell_no_record(self, error: OSError) -> None:
        _log.warning("no_claim_record", folder=str(self._folder), error=str(error))


def installation_of(incarnation: str, url: str) -> str:
    """Return the name of a database in records. A copy of a database has its incarnation, and is at another URL."""
    return f"{incarnation} {sha256(url.encode()).hexdigest()[:32]}"
