"""The public id of a delivery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.delivery_id import format_delivery_id, parse_delivery_id

BIGINT = st.integers(0, 2**63 - 1)


@given(BIGINT, BIGINT)
def test_an_id_reads_back_as_its_two_numbers(event: int, subscription: int) -> None:
    assert parse_delivery_id(format_delivery_id(event, subscription)) == (event, subscription)


@pytest.mark.parametrize(
    "text", ["", "dlv_1", "dlv_1_", "dlv_1_2_3", "dlv_-1_2", "evt_1_2", f"dlv_{2**63}_1", "dlv_1_2\n"]
)
def test_another_text_names_no_delivery(text: str) -> None:
    assert parse_delivery_id(text) is None
