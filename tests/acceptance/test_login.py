"""The status page of a hub with API keys, opened in a real browser: FT-02."""

from __future__ import annotations

from pathlib import Path

from tests.app.conftest import RunHub, running_hub
from tests.app.web.test_authentication import bearer
from tests.hostile.browser import dom_of

__all__ = ["running_hub"]


async def test_a_browser_opens_the_status_page_with_a_key_as_the_password(running_hub: RunHub, tmp_path: Path) -> None:
    """FT-02: Chromium answers the challenge with the login that its address names."""
    async with running_hub(access="keys") as hub:
        key = await bearer(hub, "read")
        await hub.publish("orders.paid", Authorization=f"Bearer {await bearer(hub, 'publish')}")

        page = await dom_of(hub.url.replace("://", f"://me:{key}@") + "/", tmp_path / "profile")

        assert ("<h2>Topics</h2>" in page, "orders.paid" in page) == (True, True)
