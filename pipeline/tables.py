"""Tables: all tables of a lake, for jobs that read each of them."""

from __future__ import annotations

from pipeline.delivery import delivery_table
from pipeline.erasure import erased_table
from pipeline.lake import Table, bronze
from pipeline.metric import metric_table
from pipeline.repair.damage import quarantined_table
from pipeline.slo import slo_table
from pipeline.storage import LakeStorage
from pipeline.typed.tables import made_tables

__all__ = ["lake_tables"]


def lake_tables(lake: LakeStorage, of: type[Table] = Table) -> tuple[Table, ...]:
    """Return bronze, the tables of erased and quarantined records, silver and gold. Unused tables are empty.

    The last ones are the typed and rejected rows of each topic and version that lies in the lake. Raises StorageError.
    """
    makers = bronze, erased_table, quarantined_table, delivery_table, metric_table, slo_table
    return (*(made(lake, of) for made in makers), *made_tables(lake, of))
