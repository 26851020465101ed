"""A queue in each of its places; the URL's fixture boots only the server that is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.queues.places import PLACES, Place, opened


@pytest.fixture(params=list(PLACES))
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """A database without the queue `q` yet."""
    url = request.getfixturevalue("database_url" if request.param == "postgresql" else "mariadb_url")
    async with opened(request.param, url) as place:
        yield place
