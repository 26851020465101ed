"""benchmarks/scale.py: the projection's arithmetic, on figures that can be checked in one's head."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale import Costs, Day, Site, bottleneck, disk_terabytes, main, report, simulate

ROUND = Costs(100, 50, 10, 10, 100, 40, 1_000, 100, 900, 800, 200)
LEVEL = Day(events=86_400 * 5_000, peak=1.0, broker_sinks=1, deliveries=1.0, retention_days=1)
SITE = Site(1, 1, 1, 1, 20, 10)


def test_the_fullest_resource_is_named() -> None:
    """Capacities: publish 10,000/s, PostgreSQL 10,000/s, WAL 10,000/s, relay 100,000/s, delivery 10,000/s."""
    wider = replace(SITE, publish_processes=2, postgres_cores=2, wal_megabytes_per_second=60, delivery_processes=3)
    narrow = {
        "publish": replace(wider, publish_processes=1),
        "PostgreSQL cores": replace(wider, postgres_cores=1),
        "WAL": replace(wider, wal_megabytes_per_second=20),
        "delivery": replace(wider, delivery_processes=1),
    }

    found = {name: bottleneck(site, LEVEL, ROUND).name for name, site in narrow.items()}

    assert found == {name: name for name in narrow}


def test_a_day_that_fits_leaves_no_backlog() -> None:
    lived = {strain.stage.name: (strain.load, strain.backlog_max) for strain in simulate(SITE, LEVEL, ROUND)}

    assert lived == {
        "publish": (0.5, 0), "PostgreSQL cores": (0.5, 0), "WAL": (0.5, 0), "relay": (0.05, 0), "delivery": (0.5, 0),
    }  # fmt: skip


def test_what_a_stage_cannot_carry_waits_there_and_reaches_the_next_one_later() -> None:
    """12,000/s all day: 2,000/s wait before publishing, and no later stage sees more than its 10,000/s."""
    flood = replace(LEVEL, events=86_400 * 12_000)

    lived = {strain.stage.name: strain for strain in simulate(SITE, flood, ROUND)}

    assert lived["publish"].backlog_max == pytest.approx(2_000 * 86_400)
    assert lived["publish"].delay_max == pytest.approx(17_280)
    assert (lived["delivery"].load, lived["delivery"].backlog_max) == (1.0, 0)


def test_the_peak_is_where_the_day_says_and_the_mean_stays() -> None:
    day = replace(LEVEL, peak=3.0)

    rates = [day.rate(minute) for minute in range(24 * 60)]

    assert (max(rates), sum(rates) / len(rates)) == (pytest.approx(15_000), pytest.approx(5_000))


def test_a_sink_that_is_not_there_costs_nothing() -> None:
    quiet = replace(LEVEL, broker_sinks=0, deliveries=0)

    assert [strain.stage.name for strain in simulate(SITE, quiet, ROUND)] == ["publish", "PostgreSQL cores", "WAL"]


def test_the_disk_holds_events_and_attempts_until_retention() -> None:
    assert disk_terabytes(replace(LEVEL, events=1e9, retention_days=10), ROUND) == pytest.approx(10.0)


def test_the_report_names_the_first_bottleneck_of_a_billion_a_day() -> None:
    lines = "\n".join(report(Site(), Day(), Costs()))

    assert "1,000,000,000 events a day" in lines
    assert "first bottleneck: publish" in lines


def test_the_page_about_scaling_shows_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """10^9 events a day, and the first bottleneck by its name."""
    page = Path("docs/explanation/scaling.md").read_text()
    [(command, shown)] = re.findall(r"```console\n\$ python -m (benchmarks\.scale [^\n]*)\n(.*?)```", page, re.DOTALL)
    monkeypatch.setattr("sys.argv", shlex.split(command))

    main()

    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("flag", ["--peak=3", "--peak=0.5", "--postgres-cores=0"])
def test_a_day_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.setattr("sys.argv", ["scale", flag])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 2
