"""The mark: it identifies a writer's event at every sink (OR-02)."""

import json
from typing import NamedTuple


class Mark(NamedTuple):
    """The identity of one publish. The checker groups arrivals by it."""

    run: str
    """The id of the test run, which distinguishes events of other runs."""
    topic: str
    key: str | None
    n: int
    """Counts the events of this (run, topic, key) from 1, without gaps, in commit order."""

    def to_payload(self, client_time_seconds: float, size_bytes_min: int = 0) -> bytes:
        """Return the body to publish: a JSON object with the mark and the client's time, padded with spaces."""
        body = {**self._asdict(), "client_time": client_time_seconds}
        return json.dumps(body, ensure_ascii=False).encode().ljust(size_bytes_min)

    @classmethod
    def from_payload(cls, payload: bytes) -> "Mark":
        """Read the mark in a payload. Raises ValueError if it has none."""
        return cls.from_record(json.loads(payload))

    @classmethod
    def from_record(cls, record: object) -> "Mark":
        """Read the mark's four members in a JSON object. Raises ValueError if one is missing or has another type."""
        match record:
            case {"run": str(run), "topic": str(topic), "key": str() | None as key, "n": int(n)}:
                return cls(run, topic, key, n)
        raise ValueError("no mark: run, topic, key, n")
