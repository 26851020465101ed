from pathlib import Path

import pytest

from app.chaos.history import Attempt, HistoryWriter, PublishOutcome, read_history
from app.chaos.log import LineLog
from app.chaos.mark import Mark


def test_a_history_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """OR-01, OR-02."""
    path = tmp_path / "history.jsonl"
    attempts = [
        Attempt(Mark("r", "orders", "k", 1), PublishOutcome.UNKNOWN, None, 1, 1_700_000_000.5),
        Attempt(Mark("r", "orders", "k", 1), PublishOutcome.OK, "evt_abcd2345_1", 2, 1_700_000_001.0),
        Attempt(Mark("r", "orders", None, 1), PublishOutcome.FAIL),
    ]

    with LineLog(path) as log:
        writer = HistoryWriter(log)
        for attempt in attempts:
            writer.record(attempt)

    assert list(read_history(path)) == attempts


@pytest.mark.parametrize("line", ['{"n":1}', '{"attempt":1,"client_time":0,"outcome":"ok","event_id":null}'])
def test_a_line_of_another_log_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line + "\n")

    with pytest.raises(ValueError, match=r"not a line|no mark"):
        list(read_history(path))
