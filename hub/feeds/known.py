"""Known entries: the entries of a feed that were distributed, stored with its topic (WS-52, PS-13).

    {"urn:1": [7, "one version", "a later version"], "": [7, "the feed itself, without its entries"]}

The number is that of the round in which the entry was last in the feed. Entries that have left the feed stay known, and
so do former versions: a cache may bring them back. Only a feed that was read adds to them. Up to 0.2.0, an entry had
one digest and no round.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hub.feeds.feed import Entry, Feed

__all__ = ["Known"]

_ABSENT_MAX = 10_000
"""The number of entries that stay known after they have left the feed; the oldest are forgotten first."""

_VERSIONS_MAX = 8
_NAME_CHARACTERS_MAX = 128
_DIGEST_CHARACTERS = 32
_FEED_ITSELF = ""


class Known:
    """The entries of a topic that were distributed; ``stored`` is the text of `after` at the last change."""

    def __init__(self, stored: str | None) -> None:
        values: dict[str, Any] = json.loads(stored) if stored else {}
        self._rounds: dict[str, int] = {}
        self._versions: dict[str, list[str]] = {}
        for name, value in values.items():
            seen, *versions = value if isinstance(value, list) else (0, value)
            self._rounds[_name(name)] = seen
            self._versions[_name(name)] = [_version(version) for version in versions]

    def has(self, entry: Entry) -> bool:
        """Return whether this version of the entry was distributed."""
        return _version(entry.digest) in self._versions.get(_name(entry.identity), ())

    def has_all(self, feed: Feed) -> bool:
        """Return whether nothing in the feed is new: no entry, and nothing that the feed says of itself."""
        return self._has_frame(feed) and all(self.has(entry) for entry in feed.entries)

    def _has_frame(self, feed: Feed) -> bool:
        # Up to 0.2.0, no digest of the feed itself was stored; then it counts as known.
        versions = self._versions.get(_FEED_ITSELF)
        return bool(self._versions) if versions is None else _version(feed.digest) in versions

    def after(self, feed: Feed) -> str:
        """Return the text to store once this feed was distributed."""
        now = 1 + max(self._rounds.values(), default=0)
        rounds = dict(self._rounds)
        versions = {name: list(digests) for name, digests in self._versions.items()}
        for identity, digest in [(_FEED_ITSELF, feed.digest)] + [(e.identity, e.digest) for e in feed.entries]:
            name, version = _name(identity), _version(digest)
            former = [other for other in versions.get(name, ()) if other != version]
            rounds[name], versions[name] = now, [*former, version][-_VERSIONS_MAX:]
        absent = sorted((name for name in rounds if rounds[name] < now), key=lambda name: -rounds[name])
        for name in absent[_ABSENT_MAX:]:
            del rounds[name]
        return json.dumps({name: [seen, *versions[name]] for name, seen in rounds.items()}, separators=(",", ":"))


def _name(identity: str) -> str:
    """Return the identity, or its digest where it is long."""
    if len(identity) <= _NAME_CHARACTERS_MAX:
        return identity
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _version(digest: str) -> str:
    return digest[:_DIGEST_CHARACTERS]
