"""OutboxPlace: what the relay of an outbox table of others needs of the table's own database."""

from __future__ import annotations

from dataclasses import dataclass

from relay.election.port import Election
from relay.embeddable import Attendant
from relay.goharvest.outbox_table import OutboxTable

__all__ = ["OutboxPlace"]


@dataclass(frozen=True, slots=True)
class OutboxPlace:
    """The table, its election, the service of the election, and the installation's name."""

    table: OutboxTable
    election: Election
    attendant: Attendant
    installation: str
