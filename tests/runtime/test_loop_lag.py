"""A loop that something blocks is seen (RK-08, RO-11)."""

import asyncio

from prometheus_client import CollectorRegistry

from runtime.loop_lag import LoopLag
from tests.waiting import block_for, until


async def test_what_blocks_the_loop_is_noted() -> None:
    """RK-08, RO-11."""
    registry = CollectorRegistry()
    lag = LoopLag(registry, interval_seconds=0.001)

    def counted(name: str) -> float:
        return registry.get_sample_value(f"hookwire_event_loop_lag_seconds_{name}") or 0.0

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(lag.run())
        await asyncio.sleep(0)
        block_for(0.2)
        await until(lambda: counted("count"))
        lag.stop()

    assert counted("sum") >= 0.19
