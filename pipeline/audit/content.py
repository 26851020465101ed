"""Content: a hash of the event in a record. ``hookwire.content_hash`` computes the same hash in the database (FP-05).

::

    id, accepted_at in microseconds, sequence, key, content type, headers     texts, with a separator between each two
    "=" and the payload's bytes; "-" for a value that is null                 at the end

The hash is the first 8 bytes of the SHA-256. The headers are the publisher's, in their original order. The hash uses
typed columns if they exist, so that an altered column is found as well as an altered header.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["content"]

_BETWEEN: Final = "\x1f"
_BETWEEN_HEADERS: Final = "\x1e"
_HOPS: Final = "hookwire-hops"


def content() -> Column:
    """Return the hash of a row of bronze, as 16 hexadecimal digits."""
    members = F.concat_ws(
        _BETWEEN,
        F.col("event_number").cast("string"),
        F.unix_micros("accepted_at").cast("string"),
        F.coalesce(F.col("sequence").cast("string"), F.lit("-")),
        _given(F.col("key").cast("string")),
        _given(F.col("content_type")),
        _headers(),
        F.when(F.col("value").isNull(), "-").otherwise("="),
    )
    payload = F.coalesce("value", F.lit(b""))
    return F.substring(F.sha2(F.concat(members.cast("binary"), payload), 256), 1, 16)


def _given(text: Column) -> Column:
    return F.coalesce(F.concat(F.lit("="), text), F.lit("-"))


def _headers() -> Column:
    """Return the publisher's headers. Headers of the envelope, which an older version archived too, are left out.

    Spark does not compile lambdas, so the lambdas here run only for records that have headers.
    """
    of_publisher = F.filter("headers", _is_of_publisher)
    texts = F.transform(of_publisher, lambda each: F.concat(each["key"], F.lit("="), each["value"].cast("string")))
    return F.when(F.size("headers") > 0, F.array_join(texts, _BETWEEN_HEADERS)).otherwise("")


def _is_of_publisher(header: Column) -> Column:
    name = header["key"]
    return (name == _HOPS) | (~name.startswith("hookwire-") & (name != "content-type"))
