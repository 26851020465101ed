"""goharvest's three scenarios (its int/harvest_int_test.go), judged by the witness: F52, RR-01.

There: 1 and 4 relays with 2 % of client faults, 8 without, rolling start and stop, at least 100 records with 10 keys.
Here the same with a hundred times its records: our outbox under both elections, and goharvest's own table. The small
size belongs to every run.
"""

from pathlib import Path

import pytest

from scripts.servers.kafka import KafkaServer
from tests.faults.compat_harness import open_compat_harness
from tests.faults.harness import CLEAN, SOAK, Kafka, open_harness

RECORDS = 10_000
KEYS = 10
TWO_PERCENT = "relay.before_send:error/50,relay.after_send:error/50"
CROWDS = ((1, TWO_PERCENT), (4, TWO_PERCENT), (8, ""))
ELECTIONS = {"lease": {"KAFKA_ELECTION": "lease"}, "neli": {"KAFKA_ELECTION": "neli", "NELI_SESSION_SECONDS": "3"}}


def size(relays: int) -> object:
    """Of the full scenarios the middle one belongs to `make faults`."""
    return pytest.mark.slow if relays == 4 else SOAK


def scenarios() -> list[object]:
    small = [pytest.param("neli", 2, TWO_PERCENT, 200, id="neli-2-small")]
    full = [
        pytest.param(election, relays, faults, RECORDS, id=f"{election}-{relays}", marks=size(relays))
        for election in ELECTIONS
        for relays, faults in CROWDS
    ]
    return [*small, *full]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("election", "relays", "faults", "records"), scenarios())
async def test_relays_that_come_and_go_lose_and_reorder_nothing(
    election: str, relays: int, faults: str, records: int, database_url: str, kafka: KafkaServer, tmp_path: Path,
    seed: int,
) -> None:  # fmt: skip
    """RU-01, F10 F52, I1 I3 I5. A relay alone is stopped and started too: then nobody leads for a moment."""
    settings = ELECTIONS[election] | ({"FAILPOINTS": faults} if faults else {})
    load = {"keys": KEYS, "transactors": 0, "processes": relays, "pause_seconds": 0.02 if records < 1000 else 0.002}
    async with open_harness(database_url, tmp_path, seed, Kafka(kafka.bootstrap), settings=settings, **load) as harness:
        async with harness.scenario.load():
            while harness.scenario.accepted < records:
                for child in harness.scenario.children:
                    goal = min(harness.scenario.accepted + max(records // 20, 20), records)
                    await harness.accepts(goal - harness.scenario.accepted, seconds_max=300)
                    code, _ = await child.drain(seconds_max=30)
                    assert code == 0
                    await child.start()
        assert await harness.concluded(duplicates_max=records // 2, quiet_seconds_max=300) == CLEAN


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("relays", "faults"),
    [pytest.param(relays, faults, id=str(relays), marks=size(relays)) for relays, faults in CROWDS],
)
async def test_relays_of_goharvests_own_table_that_come_and_go_lose_and_reorder_nothing(
    relays: int, faults: str, database_url: str, kafka: KafkaServer, tmp_path: Path
) -> None:
    """RO-01: I1 I3. At most one of them leads, as there."""
    broker = Kafka(kafka.bootstrap)
    async with open_compat_harness(database_url, tmp_path, broker, relays=relays, failpoints=faults) as harness:
        async with harness.load(KEYS, pause_seconds=0.02):
            while harness.written < RECORDS:
                for relay in harness.relays:
                    await harness.writes(min(RECORDS // 20, max(RECORDS - harness.written, 0)), seconds_max=300)
                    await harness.restart(relay)
        assert await harness.concluded(duplicates_max=RECORDS // 2, seconds_max=300) == CLEAN
