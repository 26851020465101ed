"""pipeline/kafka_reader.py: which options Spark gets, without a Spark."""

import re
from typing import Any
from unittest.mock import MagicMock

import pytest

from pipeline.kafka_options import SparkKafkaOptions
from pipeline.kafka_reader import source_rows

SPARKS_REDACTION = re.compile(r"(?i)secret|password|token|access[.]?key|sasl\.jaas\.config")
"""``spark.redaction.regex``, by the name of an option, and what Spark's Kafka connector masks beside it."""


@pytest.mark.parametrize("source", ["python", "jvm"])
def test_sparks_plans_and_event_logs_mask_the_password(source: Any) -> None:
    """FS-19: the option was named `client`, which Spark shows."""
    spark = MagicMock()
    source_rows(spark, SparkKafkaOptions("kafka:9092", source, username="me", password="canary"), [])
    given = spark.read.format.return_value.options.call_args.kwargs

    assert [name for name, value in given.items() if "canary" in value and not SPARKS_REDACTION.search(name)] == []
