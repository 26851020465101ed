"""What a sink received, by the number of its term (OR-12)."""

from pathlib import Path

import pytest

from app.chaos.arrivals import Arrival, ArrivalWriter, read_arrivals
from app.chaos.log import LineLog
from app.chaos.mark import Mark

MARK = Mark("r", "orders", "k", 1)


def test_arrivals_read_back_numbered_as_they_came(tmp_path: Path) -> None:
    """OR-02."""
    path = tmp_path / "kafka.jsonl"

    with LineLog(path) as log:
        writer = ArrivalWriter(log, "kafka")
        written = [
            writer.record(MARK, event_id="evt_abcd2345_1", sequence=1, term=3, stream="orders-0", group=2),
            writer.record(MARK),
        ]

    assert (
        list(read_arrivals(path))
        == written
        == [
            Arrival("kafka", 0, MARK, "evt_abcd2345_1", 1, 3, "orders-0", 2),
            Arrival("kafka", 1, MARK),
        ]
    )


def test_a_reader_that_is_started_again_goes_on_counting(tmp_path: Path) -> None:
    with LineLog(tmp_path / "log") as log:
        assert ArrivalWriter(log, "amqp", index_first=5).record(MARK).index == 5


def test_a_line_of_another_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"sink":"kafka"}\n')

    with pytest.raises(ValueError, match="not a line"):
        list(read_arrivals(path))
