"""Tables: all that a lake has, for what has to look at each of them."""

from __future__ import annotations

from pipeline.delivery import delivery_table
from pipeline.erasure import erased_table
from pipeline.lake import Table, bronze
from pipeline.metric import metric_table
from pipeline.slo import slo_table
from pipeline.storage import LakeStorage

__all__ = ["lake_tables"]


def lake_tables(lake: LakeStorage) -> tuple[Table, ...]:
    """Bronze, what was erased from it, silver, gold; one that was never written to is empty."""
    return (bronze(lake), erased_table(lake), delivery_table(lake), metric_table(lake), slo_table(lake))
