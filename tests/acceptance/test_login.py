"""The console of a hub with API keys, in a real browser that signs in by its form."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tests.app.conftest import RunHub, running_hub
from tests.app.web.test_authentication import bearer
from tests.hostile.browser import dom_of, serve_site

__all__ = ["running_hub"]


async def test_a_browser_signs_in_and_sees_the_page_that_was_asked_for(running_hub: RunHub, tmp_path: Path) -> None:
    """FT-02, CN-14: the browser keeps the cookie of the answer, and sends it with the page that it is led to."""
    async with running_hub(access="keys") as hub, serve_site(urlsplit(hub.url).port) as site:
        key = await bearer(hub, "read")
        await hub.publish("orders.paid", Authorization=f"Bearer {await bearer(hub, 'publish')}")

        page = await dom_of(site.sends_form("/console/sign-in", key=key, next="topics"), tmp_path / "profile")

        assert ("<h2>Topics</h2>" in page, "orders.paid" in page, "Sign out" in page) == (True, True, True)
