"""The address that a hub calls its own while no setting says otherwise."""

from __future__ import annotations

import pytest

from app.settings.address import own_url


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:0", "http://127.0.0.1:8080"),
        ("hub.example:8080", "http://hub.example:8080"),
        ("0.0.0.0:8080", "http://localhost:8080"),
        ("[::]:8080", "http://localhost:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_address_that_nobody_can_call_is_written_as_localhost(listen: str, url: str) -> None:
    assert own_url(listen, 8080) == url
