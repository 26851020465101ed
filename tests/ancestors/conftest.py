"""The whole hub inside a test, as the tests of `app` have it."""

from tests.app.conftest import running_hub

__all__ = ["running_hub"]
