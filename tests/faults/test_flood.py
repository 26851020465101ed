"""WebSub abuse: 10,000 hostile subscribes (T19)."""

import pytest

from tests.app.conftest import RunHub, running_hub
from tests.app.web.test_websub import flood

__all__ = ["running_hub"]


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(900)  # 10,000 requests, on machines that are busy
async def test_a_flood_of_subscribe_requests_hardly_reaches_its_victim(running_hub: RunHub) -> None:
    """T19, WS-101, UD-18: the victim sees at most the configured number in a minute."""
    await flood(running_hub, 10_000)
