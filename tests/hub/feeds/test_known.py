"""Known entries: what stays known, for how long, and what was stored by an earlier version."""

import json

import pytest

from hub.feeds.feed import Feed, read_feed
from hub.feeds.known import Known


def rss(*items: str, title: str = "t") -> Feed:
    """A feed whose items are named by their first letter."""
    parts = "".join(f"<item><guid>{item[0] * 200}</guid><title>{item}</title></item>" for item in items)
    return read_feed(f"<rss><channel><title>{title}</title>{parts}</channel></rss>".encode())


def known_after(*feeds: Feed) -> Known:
    stored = None
    for feed in feeds:
        stored = Known(stored).after(feed)
    return Known(stored)


@pytest.mark.parametrize(
    "between",
    [[rss("a")], [rss()], [rss("b", "a")], [rss("a", "b2")], [rss("a", "c", "d")], [rss("a", "b", title="u"), rss()]],
    ids=["shrinks", "empty", "reordered", "changed", "others", "renamed"],
)
def test_an_entry_that_was_distributed_is_never_new_again(between: list[Feed]) -> None:
    """GW-03."""
    assert known_after(rss("a", "b"), *between).has_all(rss("a", "b"))


@pytest.mark.parametrize(
    "feed", [rss("a", "b", "c"), rss("a", "b2"), rss("a", "b", title="u")], ids=["entry", "version", "title"]
)
def test_a_new_entry_a_new_version_and_a_new_title_are_new(feed: Feed) -> None:
    """GW-03, GW-08."""
    assert not known_after(rss("a", "b")).has_all(feed)


def test_nothing_is_known_at_first() -> None:
    assert not Known(None).has_all(rss())


def test_what_an_earlier_version_stored_is_known() -> None:
    """GW-03: one whole digest for each entry, and nothing of the feed itself."""
    feed = rss("a", "b")
    stored = json.dumps({entry.identity: entry.digest for entry in feed.entries})

    assert (Known(stored).has_all(feed), Known(Known(stored).after(feed)).has_all(rss("a"))) == (True, True)


def test_two_entries_of_one_name_are_both_known() -> None:
    """GW-03."""
    assert known_after(rss("a1", "a2")).has_all(rss("a1", "a2"))


def test_the_memory_is_bounded_and_the_oldest_are_forgotten_first() -> None:
    """GW-03: 10,000 entries that have left the feed, eight versions of each."""
    items = ["".join(f"<item><guid>{number}-{item}</guid></item>" for item in range(6000)) for number in range(3)]
    feeds = [read_feed(f"<rss><channel>{part}</channel></rss>".encode()) for part in items]
    known = known_after(*feeds, rss(*(f"a{n}" for n in range(20))))
    versions = [known.has_all(rss(f"a{n}")) for n in range(20)]

    assert sum(known.has(entry) for feed in feeds for entry in feed.entries) == 10_000
    assert [known.has_all(feed) for feed in feeds[1:]] == [False, True]
    assert versions == [False] * 12 + [True] * 8
