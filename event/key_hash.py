"""The hash of (topic, key): which relay shard an event belongs to and which stripe its publisher locks.

    digest = SHA-256( UTF-8(topic) + 0x00 + UTF-8(key) )
    shard  =  digest[0] & 63                               one of 64 virtual shards (RO-05)
    stripe = ((digest[1] << 8) | digest[2]) & 1023         one of 1,024 advisory locks (RO-02c)

Neither a topic nor a key may hold U+0000, so the separator makes the pair unambiguous.  Shard and stripe come from
different bytes: a stripe does not imply a shard.  An event without a key takes no stripe; its shard is ``id & 63``
(RR-11).  The SQL function computes the same; ``openapi/key-hash-vectors.json`` binds both.  A change of this rule is
a new ``HASH_VERSION`` and with it a new layout (RR-11), never an edit.
"""

import hashlib
from typing import NamedTuple

HASH_VERSION = 1
SHARDS = 64
STRIPES = 1024


class KeyHash(NamedTuple):
    """The shard and the stripe of a (topic, key)."""

    shard: int
    """0..63"""
    stripe: int
    """0..1023"""


def hash_key(topic: str, key: str) -> KeyHash:
    """Hash an ordered event's topic and key (both without U+0000, see ``event.topic``).

    Where a layout's order scope is ``key``, the topic is taken to be empty (RG-10).
    """
    digest = hashlib.sha256(topic.encode() + b"\x00" + key.encode()).digest()
    return KeyHash(shard=digest[0] & (SHARDS - 1), stripe=((digest[1] << 8) | digest[2]) & (STRIPES - 1))


def keyless_shard(id: int) -> int:  # noqa: A002 - the row's column is called so everywhere
    """Return the shard of an event without a key: it needs no order, only an even spread."""
    return id & (SHARDS - 1)
