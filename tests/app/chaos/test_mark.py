import pytest

from app.chaos.mark import Mark


@pytest.mark.parametrize("mark", [Mark("r1", "orders", "ключ", 7), Mark("r1", "orders", None, 1)])
def test_a_mark_travels_in_the_payload(mark: Mark) -> None:
    """OR-02."""
    payload = mark.to_payload(1_700_000_000.25, size_bytes_min=600)

    assert (Mark.from_payload(payload), len(payload)) == (mark, 600)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"run":"r","topic":"t","key":1,"n":1}',
        b'{"run":"r","topic":"t","key":"k","n":"1"}',
    ],
)
def test_a_payload_of_somebody_else_carries_no_mark(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"no mark|Expecting|decode"):
        Mark.from_payload(payload)
