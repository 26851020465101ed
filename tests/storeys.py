"""Which marks a test has by its place and by its other marks; `make test`, `make faults` and `make soak` go by them."""

from collections.abc import Sequence

import pytest


def mark_storeys(items: Sequence[pytest.Item]) -> None:
    """Mark scenarios as `fault`, and each `soak` as `slow`."""
    for item in items:
        if item.nodeid.startswith("tests/faults/"):
            item.add_marker("fault")
        if item.get_closest_marker("soak"):
            item.add_marker("slow")
