"""The form of a beat of the election in Kafka: a small JSON object, read strictly (RL-18)."""

from __future__ import annotations

import json

from relay.election.neli_core import Beat

__all__ = ["beat_of", "value_of"]


def value_of(beat: Beat) -> bytes:
    """Return ``{"sender": "host-1-ab12", "number": 7, "terms": {"0": 12}}``."""
    terms = {str(role): term for role, term in beat.terms}
    return json.dumps({"sender": beat.sender, "number": beat.number, "terms": terms}).encode()


def beat_of(value: bytes | None) -> Beat | None:
    """Return the beat of a record; None for any other content.

    >>> beat_of(value_of(Beat("me", 7, ((0, 12),))))
    Beat(sender='me', number=7, terms=((0, 12),))
    >>> beat_of(b"1700000000%relay-1") is beat_of(None) is None
    True
    """
    try:
        read = json.loads(value or b"")
        terms = tuple((int(role), int(term)) for role, term in read["terms"].items())
        return Beat(str(read["sender"]), int(read["number"]), terms)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
