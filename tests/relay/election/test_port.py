"""relay/election/port.py: the end of a lease."""

from __future__ import annotations

import pytest

from relay.election.port import LeadershipLost, Lease, holding
from relay.sink import Term


async def test_a_block_that_leaves_because_its_lease_is_lost_ends_as_a_lost_one() -> None:
    """RO-04: a lost lease also asks its holder to leave. A quick holder leaves before it is cancelled."""
    lease = Lease(Term("kafka", 0, 1, 1, 0))
    with pytest.raises(LeadershipLost, match="not renewed"):
        async with holding(lease):
            lease.lose("not renewed")
    assert lease.asked.is_set()
