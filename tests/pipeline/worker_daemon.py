"""Spark's daemon for the tests: it imports what our tasks need before it forks, so that no worker imports it again.

Spark lets it import PySpark from an archive. Each task would read the contents of Spark's archives anew, which takes a
quarter of a second. Here PySpark is that of the environment.
"""

import sys
from importlib import import_module

_NEEDED = (
    "pandas",
    "pyarrow",
    "confluent_kafka",
    "pipeline.kafka_source",
    "pipeline.audit.digest",
    "pipeline.typed.fit",
)

if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for name in _NEEDED:
        import_module(name)
    import_module("pyspark.daemon").manager()
