"""The line that ``hookwire --version`` prints."""

from __future__ import annotations

__all__ = ["own_version"]


def own_version() -> str:
    """Return the name and version of the server. The distribution `hookwire` is the SDK."""
    import importlib.metadata

    return f"hookwire {importlib.metadata.version('hookwire-server')}"
