"""The group ``hookwire sources``, with the commands of both kinds of sources."""

from __future__ import annotations

from app.cli.commands.sources import inbound_sources
from app.cli.commands.sources.kafka_sources import sources

__all__ = ["sources"]

sources.command()(inbound_sources.add)
sources.command()(inbound_sources.show)
sources.command(name="test")(inbound_sources.try_out)
sources.command()(inbound_sources.remove)
