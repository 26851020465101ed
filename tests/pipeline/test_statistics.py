"""The words of footers and logs on values that Python's readers cannot hold: compared or named, and no traceback."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.delta.statistics import EARLIEST, LATEST, ValueBounds, wrong_bounds, wrong_statistics

SAID = {"deleted_rows": False, "num_records": 2}
YEAR_10000 = 253_402_300_800_000_000


def footer_of(column: pa.Array) -> pq.FileMetaData:
    draft = io.BytesIO()
    pq.write_table(pa.table({"ce_type": column}), draft)
    return pq.read_metadata(draft)


def test_a_text_that_is_no_utf8_is_compared_in_bytes() -> None:
    """A producer may send such an attribute of a CloudEvent: `check` and `audit` ended with a UnicodeDecodeError."""
    footer = footer_of(pa.array([b"\xff", b"a"], pa.binary()).view(pa.string()))
    assert wrong_statistics(SAID, footer) is None
    assert wrong_bounds(SAID, footer, {"ce_type": ValueBounds(b"a", b"\xff", 0)}) is None
    said = "its footer says max \ufffd of ce_type, and it is \ufffd\ufffd"
    assert wrong_bounds(SAID, footer, {"ce_type": ValueBounds(b"a", b"\xff\xff", 0)}) == said
    log = SAID | {"max.ce_type": "b"}
    assert wrong_statistics(log, footer) == "the log says max b of ce_type, and it is \ufffd"


def test_a_time_that_python_does_not_have_is_named() -> None:
    """It was a traceback (OverflowError), and nobody knew of which file."""
    for moment, bounds in ((YEAR_10000, (EARLIEST.replace(year=1970), LATEST)), (-YEAR_10000, (EARLIEST, LATEST))):
        footer = footer_of(pa.array([moment, 0], pa.timestamp("us", "UTC")))
        assert wrong_statistics(SAID, footer) is None
        found = wrong_bounds(SAID, footer, {"ce_type": ValueBounds(*bounds, 0)})
        assert found == "it has a time of ce_type outside the years 1 to 9999"
