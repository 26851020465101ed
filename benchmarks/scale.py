"""Scale: a model that finds the busiest resource for a number of events per day.

It measures nothing. The other benchmarks have measured the costs below. The model applies them to a day whose load
follows a sine, simulates the stages minute by minute, and names the resource that is full first::

    POST --> [publish] --> [PostgreSQL, WAL] --> [relay, per sink] --> Kafka, AMQP
                                |    |
                                |    +--> [delivery workers] --> webhooks
                                +--> disk, until retention

The model has one database. If a load does not fit, the output says how many hubs have to share the topics.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

_MINUTES = 24 * 60


def _asked(default: Any, text: str) -> Any:
    """Return a field that the command line may change."""
    return field(default=default, metadata={"help": f"{text} (default: {default:g})"})


@dataclass(frozen=True)
class Costs:
    """Costs of an event, of an event at a broker sink and of a delivery: core microseconds, WAL bytes, disk bytes.

    The defaults are upper bounds of the figures for the third machine in benchmarks/results/history.md. Its processes
    share two cores: for instance, publishing at 6,300/s and its part of PostgreSQL use both of them.
    """

    publish_us: float = 190
    publish_postgres_us: float = 130
    relay_us: float = 20
    relay_postgres_us: float = 17
    delivery_us: float = 100
    delivery_postgres_us: float = 60
    publish_wal: float = 1_150
    relay_wal: float = 145
    delivery_wal: float = 1_500
    event_disk: float = 810
    attempt_disk: float = 230


@dataclass(frozen=True)
class Site:
    """The available resources. A process counts once for each core that it fills. A relay drains at most 64 shards."""

    publish_processes: int = _asked(4, "processes with the role api")
    relay_processes: int = _asked(1, "relay processes")
    delivery_processes: int = _asked(4, "deliver processes")
    postgres_cores: int = _asked(16, "cores of the database's machine")
    wal_megabytes_per_second: float = _asked(400.0, "what the disk of the write-ahead log takes, MB/s")
    disk_terabytes: float = _asked(10.0, "what the disk of the tables holds, TB")


@dataclass(frozen=True)
class Day:
    """The load of a day. ``peak`` is the busiest minute divided by the mean, ``deliveries`` the webhooks per event."""

    events: float = _asked(1e9, "events a day")
    peak: float = _asked(2.0, "the busiest minute over the mean, 1 to 2")
    broker_sinks: int = _asked(1, "of Kafka and AMQP, how many take each event")
    deliveries: float = _asked(1.0, "webhooks for each event")
    retention_days: float = _asked(7.0, "days until events are dropped")

    def rate(self, minute: int) -> float:
        """Return the events per second in this minute; the minimum is at minute 0, the peak at noon."""
        return self.events / 86_400 * (1 - (self.peak - 1) * math.cos(2 * math.pi * minute / _MINUTES))


@dataclass(frozen=True)
class Stage:
    """One resource, with its capacity in events per second."""

    name: str
    capacity: float
    remedy: str


@dataclass(frozen=True)
class Strain:
    """A stage's day: ``load`` at the peak (1 is full), ``backlog_max`` events, ``delay_max`` seconds.

    The backlog of "publish" waits at the clients, which get 503 and Retry-After.
    """

    stage: Stage
    load: float
    backlog_max: float
    delay_max: float


def stages(site: Site, day: Day, costs: Costs) -> list[Stage]:
    """Return the resources in the order of an event's path, without those that this day does not use."""
    postgres_us = (
        costs.publish_postgres_us
        + day.broker_sinks * costs.relay_postgres_us
        + day.deliveries * costs.delivery_postgres_us
    )
    wal = costs.publish_wal + day.broker_sinks * costs.relay_wal + day.deliveries * costs.delivery_wal
    every = [
        Stage("publish", 1e6 * site.publish_processes / costs.publish_us, "more `serve --role api` processes"),
        Stage("PostgreSQL cores", 1e6 * site.postgres_cores / postgres_us, "more cores, then several hubs"),
        Stage("WAL", 1e6 * site.wal_megabytes_per_second / wal, "a faster disk for WAL, then several hubs"),
    ]
    if day.broker_sinks:
        relay = 1e6 * min(site.relay_processes, 64) / (costs.relay_us * day.broker_sinks)
        every.append(Stage("relay", relay, "more `relay` processes: they share the partition groups"))
    if day.deliveries:
        workers = 1e6 * site.delivery_processes / (costs.delivery_us * day.deliveries)
        every.append(Stage("delivery", workers, "more `deliver` processes"))
    return every


def simulate(site: Site, day: Day, costs: Costs) -> list[Strain]:
    """Simulate the day. A stage that is too slow queues its input, and passes on no more than its capacity."""
    strains = []
    arriving = [day.rate(minute) for minute in range(_MINUTES)]
    for stage in stages(site, day, costs):
        backlog = backlog_max = 0.0
        leaving = []
        for rate in arriving:
            done = min(backlog + 60 * rate, 60 * stage.capacity)
            backlog += 60 * rate - done
            backlog_max = max(backlog_max, backlog)
            leaving.append(done / 60)
        strains.append(Strain(stage, max(arriving) / stage.capacity, backlog_max, backlog_max / stage.capacity))
        arriving = leaving
    return strains


def bottleneck(site: Site, day: Day, costs: Costs) -> Stage:
    """Return the resource that is full first when the load grows."""
    return min(stages(site, day, costs), key=lambda stage: stage.capacity)


def disk_terabytes(day: Day, costs: Costs) -> float:
    """Return the size of all events and deliveries that retention keeps, in terabytes."""
    return day.events * day.retention_days * (costs.event_disk + day.deliveries * costs.attempt_disk) / 1e12


def report(site: Site, day: Day, costs: Costs) -> Iterator[str]:
    """Yield the lines to print."""
    peak = max(day.rate(minute) for minute in range(_MINUTES))
    yield f"{day.events:,.0f} events a day, {day.events / 86_400:,.0f}/s on average, {peak:,.0f}/s at the peak,"
    yield f"each to {day.broker_sinks} broker sink(s) and {day.deliveries:g} webhook(s)"
    yield f"{'':18}{'carries':>12}{'at the peak':>13}{'backlog':>14}{'delay':>10}"
    for strain in simulate(site, day, costs):
        late = f"{strain.delay_max:,.0f} s" if strain.backlog_max else "-"
        backlog = f"{strain.backlog_max:,.0f}" if strain.backlog_max else "-"
        yield f"{strain.stage.name:18}{strain.stage.capacity:10,.0f}/s{strain.load:12.0%} {backlog:>14}{late:>10}"
    first = bottleneck(site, day, costs)
    yield f"first bottleneck: {first.name}, at {first.capacity * 86_400 / day.peak:,.0f} events a day; {first.remedy}"
    kept = disk_terabytes(day, costs)
    over = f"; {math.ceil(kept / site.disk_terabytes)} hubs, or less retention" if kept > site.disk_terabytes else ""
    yield f"disk: {kept:.1f} TB for {day.retention_days:g} days of {site.disk_terabytes:g} TB{over}"


def main() -> None:
    """Read the day and the site from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    day, site = Day(), Site()
    for figure in (*fields(day), *fields(site)):
        flag = f"--{figure.name.replace('_', '-')}"
        parser.add_argument(
            flag, type=type(figure.default), default=figure.default, metavar="N", help=figure.metadata["help"]
        )
    given = vars(parser.parse_args())
    if not 1 <= given["peak"] <= 2:
        parser.error("--peak is 1 to 2: more would make the night's rate negative")
    if nothing := [name for name in vars(site) if given[name] <= 0]:
        parser.error(f"--{nothing[0].replace('_', '-')} is more than 0")
    chosen_day = Day(**{name: given[name] for name in vars(day)})
    chosen_site = Site(**{name: given[name] for name in vars(site)})
    print("\n".join(report(chosen_site, chosen_day, Costs())))


if __name__ == "__main__":
    main()
