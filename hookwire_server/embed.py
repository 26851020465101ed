"""What a program imports that runs a relay itself; every other module may change with any release."""

from app.cli.goharvest.relay import Compat, open_compat
from app.embed import open_relay
from app.settings.settings import Settings, load_settings
from relay.embeddable import Relay
from relay.observer import (
    Event,
    Handler,
    LeaderAcquired,
    LeaderFenced,
    LeaderRefreshed,
    LeaderRevoked,
    MeterRead,
)

__all__ = [
    "Compat", "Event", "Handler", "LeaderAcquired", "LeaderFenced", "LeaderRefreshed", "LeaderRevoked", "MeterRead",
    "Relay", "Settings", "load_settings", "open_compat", "open_relay",
]  # fmt: skip
