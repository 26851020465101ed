"""What a broker says of a batch that it refuses (KIP-467)."""

from __future__ import annotations

import pytest

from relay.kafka.error import blame, described, sink_error
from relay.kafka.refused_batch import RefusedBatch
from relay.sink import Fenced


@pytest.mark.parametrize(
    ("refused", "position", "line"),
    [
        (
            RefusedBatch(87, "One or more records have been rejected", {2: "Compacted topic cannot accept message."}),
            2,
            "Kafka's error 87 INVALID_RECORD: Compacted topic cannot accept message; "
            "publish with Hookwire-Key, or change the topic's cleanup.policy",
        ),
        (
            RefusedBatch(10),
            None,
            "Kafka's error 10 MESSAGE_TOO_LARGE; raise max.message.bytes of the topic, or send less",
        ),
        (RefusedBatch(120, "two\nlines"), None, "Kafka's error 120 UNKNOWN: two lines"),
    ],
)
def test_a_line_has_the_brokers_code_its_text_and_a_cure(
    refused: RefusedBatch, position: int | None, line: str
) -> None:
    """GW-01."""
    assert refused.line(position) == line


@pytest.mark.parametrize(
    ("code", "whose"), [(87, "record"), (10, "record"), (44, "record"), (29, "topic"), (17, "topic"), (45, "sink")]
)
def test_a_code_tells_whose_fault_it_is(code: int, whose: str) -> None:
    """GW-01, RO-08: an out-of-sequence batch tells against nobody's records."""
    assert blame(RefusedBatch(code)) == whose


def test_a_producer_that_is_fenced_by_a_later_code_is_fenced() -> None:
    """RK-25: aiokafka does not know the code 90."""
    assert isinstance(sink_error(RefusedBatch(90)), Fenced)
    assert described(RefusedBatch(90)).startswith("Kafka's error 90 PRODUCER_FENCED")
