"""For the tests of your own program: deliveries as a hub sends them, and a hub for a session of pytest.

::

    from hookwire.testing import Event, deliver, hookwire_hub          # hookwire_hub: in conftest.py

    def test_an_order_is_stored():
        answer = deliver(app, Event("evt_1", "orders.created", body=b"{}"), secret="whsec_...", path="/hook")
        assert answer.status == 204

    def test_the_whole_way(hookwire_hub):                               # a hookwire.Hookwire
        hookwire_hub.publish("orders.created", {"order": 1})
"""

from typing import Any

from hookwire.received import ReceivedEvent as Event
from hookwire.testing.delivering import Answer, deliver, deliver_async, sign

__all__ = ["Answer", "Event", "deliver", "deliver_async", "hookwire_hub", "sign"]


def __getattr__(name: str) -> Any:
    """Import the fixture, and with it pytest, only where it is used."""
    if name != "hookwire_hub":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hookwire.testing.hub import hookwire_hub

    return hookwire_hub
