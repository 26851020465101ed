import zlib

import pytest
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as st

from event.partition import Partitioner, Scheme, murmur2

# Hashes that Kafka's Java client and librdkafka print in their own tests (signed and unsigned there).
VECTORS = {
    b"": 0x106E08D9,
    b"4": 0x5A4B5CA1,
    b"34": 0x873930DA,
    b"234": 0xE7C009CA,
    b"1234": 0x9FC97B14,
    b"kafka": 0xD067CF64,
    b"giberish123456789": 0x8F552B0C,
    b"21": -973932308 & 0xFFFFFFFF,
    b"foobar": -790332482 & 0xFFFFFFFF,
    b"abc": 479470107,
}


def test_murmur2_gives_the_hashes_of_kafkas_java_client() -> None:
    """RK-22."""
    assert {key: murmur2(key) for key in VECTORS} == VECTORS


@given(st.binary(max_size=64))
def test_murmur2_agrees_with_an_independent_implementation(data: bytes) -> None:
    """OR-13."""
    assert murmur2(data) == other_murmur2(data)


@pytest.mark.parametrize(
    ("scheme", "partitions"),
    [(Scheme.MURMUR2, [4, 3, 3]), (Scheme.CRC32, [5, 0, 0])],
)
def test_each_scheme_sends_a_key_to_its_own_partition(scheme: Scheme, partitions: list[int]) -> None:
    """RK-22: same key, other partition; literal numbers, because they are a contract with consumers."""
    partitioner = Partitioner(scheme)

    assert [partitioner.partition(key, 6) for key in (b"kafka", b"abc", b"")] == partitions


@given(st.binary(max_size=16), st.integers(1, 64))
def test_crc32_is_librdkafkas_consistent_partitioner(key: bytes, partition_count: int) -> None:
    assert Partitioner(Scheme.CRC32).partition(key, partition_count) == zlib.crc32(key) % partition_count


def test_a_growing_topic_needs_no_new_cache_and_the_cache_is_bounded() -> None:
    partitioner = Partitioner(cached_keys_max=2)
    fresh = Partitioner()
    keys = [b"%d" % number for number in range(10)]

    assert [partitioner.partition(key, count) for count in (3, 7) for key in keys] == [
        fresh.partition(key, count) for count in (3, 7) for key in keys
    ]
