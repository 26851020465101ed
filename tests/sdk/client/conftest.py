"""The fixture of a whole hub, for the client."""

from tests.app.conftest import running_hub

__all__ = ["running_hub"]
