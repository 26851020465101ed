"""The Kafka partition of a key (RK-22).

``murmur2`` is the choice of Java clients and Kafka Connect: ``(murmur2(key) & 0x7fffffff) % partitions``. ``crc32`` is
librdkafka's ``consistent`` (the default of goharvest and of most C, Go and .NET clients for records with a key):
``crc32(key) % partitions``. The two send the same key to different partitions, so changing between them, or adding
partitions, moves keys: drain first (RK-23).
"""

import zlib
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache

CACHED_KEYS_MAX = 16_384
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


class Scheme(StrEnum):
    """The clients whose choice of partition is used."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"


def murmur2(data: bytes) -> int:
    """Return MurmurHash2 with the seed of Kafka's Java client, as an unsigned number of 32 bits."""
    whole = len(data) & ~3
    state = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


class Partitioner:
    """Chooses partitions, remembering the hashes of the keys seen last.

    It stores the hash, not the partition. So the cache stays valid when a topic grows, and serves all topics.
    """

    def __init__(self, scheme: Scheme = Scheme.MURMUR2, cached_keys_max: int = CACHED_KEYS_MAX) -> None:
        function: Callable[[bytes], int] = _positive_murmur2 if scheme is Scheme.MURMUR2 else zlib.crc32
        self.scheme = scheme
        self._hash = lru_cache(maxsize=cached_keys_max)(function)

    def partition(self, key: bytes, partition_count: int) -> int:
        """Return the partition of a record with this key, 0..partition_count-1."""
        return self._hash(key) % partition_count


def _positive_murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF
