"""Ask the typed tables of the lake by DuckDB, without Spark: python examples/lake/typed_with_duckdb.py FOLDER

Needs `pip install deltalake duckdb pyarrow`. FOLDER is the lake (HOOKWIRE_PIPELINE_LAKE). Makes a view of each topic's
newest tables, named after the topic, and prints how many rows of how many columns each has.
"""

import sys
from pathlib import Path

import duckdb
from deltalake import DeltaTable


def make_views(lake: str, database: duckdb.DuckDBPyConnection) -> list[str]:
    names: list[str] = []
    for kind, ending in (("typed", ""), ("rejected", "_rejected")):
        for topic in sorted(Path(lake, kind).glob("*")):
            versions = [each for each in topic.iterdir() if DeltaTable.is_deltatable(str(each))]
            if not versions:
                continue
            newest = max(versions, key=lambda version: int(version.name))
            name = topic.name.replace(".", "_").replace("-", "_") + ending
            if name.lower() in map(str.lower, names):
                sys.exit(f"two topics would be the view {name}")
            database.register(name, DeltaTable(newest).to_pyarrow_dataset())
            names.append(name)
    return names


def main(lake: str) -> None:
    with duckdb.connect() as database:
        for name in make_views(lake, database):
            view = database.table(name)
            [(rows,)] = view.aggregate("count(*)").fetchall()
            print(f"{name}: {rows} rows of {len(view.columns)} columns")


if __name__ == "__main__":
    main(sys.argv[1])
