"""Spark's daemon for the tests: it imports what our tasks need before it forks, so that no worker imports it again."""

from importlib import import_module

from pyspark import daemon

_NEEDED = ("pyarrow", "confluent_kafka", "pipeline.kafka_source", "pipeline.audit.digest", "pipeline.typed.fit")

if __name__ == "__main__":
    for name in _NEEDED:
        import_module(name)
    daemon.manager()
