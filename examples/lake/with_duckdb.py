"""Ask the lake by DuckDB, without Spark and without Java: python examples/lake/with_duckdb.py FOLDER

Needs `pip install deltalake duckdb pyarrow`. FOLDER is the lake (HOOKWIRE_PIPELINE_LAKE). Prints the events of each day
and Kafka topic; an event that the relay sent twice counts once.
"""

import sys

import duckdb
from deltalake import DeltaTable

EVENTS = """
SELECT dt, topic, count(DISTINCT event_id) AS events, count(*) AS records, sum(octet_length(value)) AS bytes
FROM bronze GROUP BY dt, topic ORDER BY dt, topic
"""


def main(lake: str) -> None:
    bronze = DeltaTable(f"{lake}/bronze").to_pyarrow_dataset()
    with duckdb.connect() as database:
        database.register("bronze", bronze)
        for day, topic, events, records, size in database.sql(EVENTS).fetchall():
            print(f"{day} {topic}: {events} events in {records} records, {size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
