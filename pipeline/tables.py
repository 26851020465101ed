"""Tables: all tables of a lake, for jobs that read each of them."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.delivery import delivery_table
from pipeline.erasure import erased_table
from pipeline.lake import Table, bronze
from pipeline.metric import metric_table
from pipeline.repair.damage import quarantined_table
from pipeline.slo import slo_table
from pipeline.storage import LakeStorage
from pipeline.typed.tables import made_tables, named_table

__all__ = ["gone_tables", "lake_tables"]


def lake_tables(lake: LakeStorage, of: type[Table] = Table) -> tuple[Table, ...]:
    """Return bronze, the tables of erased and quarantined records, silver and gold. Unused tables are empty.

    The last ones are the typed and rejected rows of each topic and version that lies in the lake. Raises StorageError.
    """
    makers = bronze, erased_table, quarantined_table, delivery_table, metric_table, slo_table
    return (*(made(lake, of) for made in makers), *made_tables(lake, of))


def gone_tables(
    lake: LakeStorage, tables: Iterable[Table], known: Iterable[str], of: type[Table] = Table
) -> list[Table]:
    """Return the tables of typed and rejected rows with a ``known`` name that are not among all ``tables`` of the lake.

    Nothing is left of them.
    """
    names = sorted({*known} - {table.name for table in tables})
    return [table for name in names if (table := named_table(lake, name, of)) is not None]
