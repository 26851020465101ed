"""runtime/loopback.py: a machine reaches itself also where it has no IPv4."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime import loopback as module
from runtime.loopback import at_loopback, loopback


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    loopback.cache_clear()
    yield
    loopback.cache_clear()


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (("127.0.0.1", "::1"), "127.0.0.1:80"), (("127.0.0.1",), "127.0.0.1:80"), (("::1",), "[::1]:80"),
        ((), "127.0.0.1:80"),
    ],
    ids=["both", "ipv4", "ipv6", "neither"],
)  # fmt: skip
def test_ipv4_is_taken_where_it_is_there(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], expected: str
) -> None:
    monkeypatch.setattr(module, "_has", lambda address, _: address in there)
    assert at_loopback(80) == expected
