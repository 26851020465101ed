import hashlib
import json
from collections import Counter
from pathlib import Path

import event.key_hash as key_hash
from event.key_hash import KeyHash, hash_key, keyless_shard
from event.topic import validate_key, validate_topic

VECTORS = json.loads((Path(__file__).parents[2] / "openapi" / "key-hash-vectors.json").read_text("utf-8"))


def test_the_published_vectors_hold_for_keys() -> None:
    """RO-02g: the SQL function is held against the same file."""
    computed = [hash_key(vector["topic"], vector["key"]) for vector in VECTORS["keyed"]]

    assert computed == [KeyHash(vector["shard"], vector["stripe"]) for vector in VECTORS["keyed"]]


def test_the_published_vectors_hold_for_events_without_a_key() -> None:
    """RR-11: the shard of a keyless event comes from its id."""
    computed = [keyless_shard(vector["id"]) for vector in VECTORS["keyless"]]

    assert computed == [vector["shard"] for vector in VECTORS["keyless"]]


def test_the_vectors_name_the_version_that_they_describe() -> None:
    published = (VECTORS["hash_version"], VECTORS["shards"], VECTORS["stripes"])

    assert published == (key_hash.HASH_VERSION, key_hash.SHARDS, key_hash.STRIPES)


def test_every_vector_is_a_legal_topic_and_key_with_its_digest() -> None:
    inputs = [(validate_topic(vector["topic"]), validate_key(vector["key"])) for vector in VECTORS["keyed"]]

    assert [hashlib.sha256(f"{topic}\0{key}".encode()).hexdigest() for topic, key in inputs] == [
        vector["sha256"] for vector in VECTORS["keyed"]
    ]


def test_the_vectors_reach_both_halves_of_every_byte() -> None:
    """A signed byte or a little-endian reading in SQL must not pass."""
    digests = [bytes.fromhex(vector["sha256"]) for vector in VECTORS["keyed"]]

    assert all({digest[index] >= 128 for digest in digests} == {True, False} for index in range(3))


def test_keys_spread_evenly_over_shards_and_stripes() -> None:
    """RO-02c."""
    hashes = [hash_key("orders", f"customer-{number}") for number in range(64_000)]

    shards = Counter(one.shard for one in hashes)
    stripes = Counter(one.stripe for one in hashes)
    assert (len(shards), max(shards.values()) < 1200, len(stripes), max(stripes.values()) < 110) == (
        64,
        True,
        1024,
        True,
    )
