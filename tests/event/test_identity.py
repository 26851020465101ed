import pytest
from hypothesis import given
from hypothesis import strategies as st

from event.identity import EVENT_ID_MAX, Incarnation, format_event_id, is_own, own_prefixes, parse_event_id


@given(st.from_regex(r"[a-z2-7]{8}", fullmatch=True), st.integers(1, EVENT_ID_MAX))
def test_an_event_id_reads_back_and_never_holds_a_dot(incarnation: str, number: int) -> None:
    """WH-S05."""
    text = format_event_id(incarnation, number)

    assert (parse_event_id(text), "." in text) == ((incarnation, number), False)


def test_an_event_id_is_plain_to_read() -> None:
    assert format_event_id("abcd2345", 17) == "evt_abcd2345_17"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "evt_abcd2345_",
        "evt_abcd2345_0",
        "evt_abcd2345_017",
        "evt_abcd2345_-1",
        "evt_abcd2345_1\n",
        "evt_ABCD2345_1",
        "evt_abcd2340_1",
        "evt_abcd234_1",
        "evt_abcd23456_1",
        "EVT_abcd2345_1",
        "evt_abcd2345_1.2",
        "evt_abcd2345_١",
        f"evt_abcd2345_{EVENT_ID_MAX + 1}",
    ],
)
def test_anything_else_is_no_event_id(text: str) -> None:
    with pytest.raises(ValueError, match="event"):
        parse_event_id(text)


@pytest.mark.parametrize(("incarnation", "number"), [("abcd2345", 0), ("abcd2345", EVENT_ID_MAX + 1), ("abc", 1)])
def test_an_impossible_event_id_is_not_written(incarnation: str, number: int) -> None:
    with pytest.raises(ValueError, match=r"lies in|8 characters"):
        format_event_id(incarnation, number)


def test_an_event_keeps_the_name_that_its_installation_had() -> None:
    """HA-23: a name of before holds up to its last number."""
    incarnation = Incarnation("cccccccc", [(20, "bbbbbbbb"), (10, "aaaaaaaa")])
    names = [format_event_id(incarnation, number) for number in (10, 11, 20, 21)]
    assert names == ["evt_aaaaaaaa_10", "evt_bbbbbbbb_11", "evt_bbbbbbbb_20", "evt_cccccccc_21"]
    assert own_prefixes(incarnation) == ("evt_cccccccc_", "evt_aaaaaaaa_", "evt_bbbbbbbb_")


def test_an_id_above_the_last_number_of_its_name_is_not_our_own() -> None:
    """HA-23: the original of a clone goes on with the name before."""
    incarnation = Incarnation("cccccccc", [(20, "bbbbbbbb"), (10, "aaaaaaaa")])
    ids = ["evt_aaaaaaaa_10", "evt_aaaaaaaa_11", "evt_bbbbbbbb_20", "evt_bbbbbbbb_21", "evt_cccccccc_21", "evt_b"]
    assert [one for one in ids if is_own(incarnation, one)] == ["evt_aaaaaaaa_10", "evt_bbbbbbbb_20", "evt_cccccccc_21"]
