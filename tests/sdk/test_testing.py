"""What the SDK offers to tests of users' programs (FD-16). One test runs a hub as a subprocess."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookwire import Hookwire
from hookwire.receive.fastapi import Receiver
from hookwire.testing import Event, deliver, sign
from hookwire.testing.hub import running_hub

SECRET = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="


def test_a_delivery_is_signed_as_the_standard_says() -> None:
    """FD-16."""
    from standardwebhooks.webhooks import Webhook

    event = Event("evt_1", "a", body=b'{"a": 1}')

    assert Webhook(SECRET).verify(event.body, sign(event, SECRET)) == {"a": 1}


def test_a_wrong_secret_is_refused_by_the_application_itself() -> None:
    other = "whsec_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="

    assert deliver(Receiver(secrets=[SECRET]), Event("evt_1", "a"), other).status == 401


@pytest.fixture
def a_hub(tmp_path: Path) -> Iterator[Hookwire]:
    yield from running_hub(tmp_path)


def test_a_hub_runs_for_tests_and_publishes(a_hub: Hookwire) -> None:
    """FD-16: a hub on the embedded database, as a program of its own."""
    assert a_hub.publish("orders.created", {"order": 1}).topic == "orders.created"


def test_without_the_service_the_fixture_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """FD-16."""
    from hookwire.testing import hookwire_hub

    monkeypatch.setitem(sys.modules, "hookwire_server", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(pytest.fail.Exception, match="pip install hookwire-server"):
        next(hookwire_hub.__wrapped__(tmp_path_factory))
