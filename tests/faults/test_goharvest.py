"""goharvest's three scenarios (its int/harvest_int_test.go), judged by the witness: F52, RR-01.

There: 1 and 4 relays with 2 % of client faults, 8 without, rolling start and stop, at least 100 records with 10 keys.
Here the same with a hundred times its records, under both elections; the small size belongs to every run.
"""

from pathlib import Path

import pytest

from scripts.servers.kafka import KafkaServer
from tests.faults.rig import CLEAN, Kafka, open_rig

TWO_PERCENT = "relay.before_send:error/50,relay.after_send:error/50"
ELECTIONS = {"lease": {"KAFKA_ELECTION": "lease"}, "neli": {"KAFKA_ELECTION": "neli", "NELI_SESSION_SECONDS": "3"}}


def scenarios() -> list[object]:
    small = [pytest.param("neli", 2, TWO_PERCENT, 200, id="neli-2-small")]
    full = [
        pytest.param(election, relays, faults, 10_000, id=f"{election}-{relays}", marks=pytest.mark.slow)
        for election in ELECTIONS
        for relays, faults in ((1, TWO_PERCENT), (4, TWO_PERCENT), (8, ""))
    ]
    return [*small, *full]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("election", "relays", "faults", "records"), scenarios())
async def test_relays_that_come_and_go_lose_and_reorder_nothing(
    election: str, relays: int, faults: str, records: int, database_url: str, kafka: KafkaServer, tmp_path: Path,
    seed: int,
) -> None:  # fmt: skip
    """I1 I3 I5. A relay alone is stopped and started too: then nobody leads for a moment."""
    settings = ELECTIONS[election] | ({"FAILPOINTS": faults} if faults else {})
    load = {"keys": 10, "transactors": 0, "processes": relays, "pause_seconds": 0.02 if records < 1000 else 0.002}
    async with open_rig(database_url, tmp_path, seed, Kafka(kafka.bootstrap), settings=settings, **load) as rig:
        async with rig.stage.load():
            while rig.stage.accepted < records:
                for child in rig.stage.children:
                    goal = min(rig.stage.accepted + max(records // 20, 20), records)
                    await rig.accepts(goal - rig.stage.accepted, seconds_max=300)
                    code, _ = await child.drain(seconds_max=30)
                    assert code == 0
                    await child.start()
        assert await rig.concluded(duplicates_max=records // 2, quiet_seconds_max=300) == CLEAN
