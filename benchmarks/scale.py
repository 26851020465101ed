"""A day on paper: events per day in, the busiest resource out.

Nothing is measured here. The costs below were measured by the other benchmarks; this projects them onto a day whose
load follows a sine, lets the stages work it off minute by minute, and names the resource that is full first::

    POST --> [publish] --> [PostgreSQL, WAL] --> [relay, per sink] --> Kafka, AMQP
                                |    |
                                |    +--> [delivery workers] --> webhooks
                                +--> disk, until retention

One database is modelled. What does not fit into one is the answer "share the topics among several hubs", and the number
printed beside it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

_MINUTES = 24 * 60


def _asked(default: Any, text: str) -> Any:
    """A figure that the command line may change."""
    return field(default=default, metadata={"help": f"{text} (default: {default:g})"})


@dataclass(frozen=True)
class Costs:
    """Of one event, one event at one broker sink, one delivery: microseconds of a core, bytes of WAL, bytes of disk.

    The defaults are upper bounds by the figures of the third machine in benchmarks/results/history.md. All processes
    share two cores there: a publish and its part of PostgreSQL take 2 of them at 6,300/s, for instance.
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
    """What is there. Processes count once for each core that they fill; a relay drains 64 shards of a sink at most."""

    publish_processes: int = _asked(4, "processes with the role api")
    relay_processes: int = _asked(1, "relay processes")
    delivery_processes: int = _asked(4, "deliver processes")
    postgres_cores: int = _asked(16, "cores of the database's machine")
    wal_megabytes_per_second: float = _asked(400.0, "what the disk of the write-ahead log takes, MB/s")
    disk_terabytes: float = _asked(10.0, "what the disk of the tables holds, TB")


@dataclass(frozen=True)
class Day:
    """What comes in: ``peak`` is the busiest minute over the mean, ``deliveries`` webhooks per event."""

    events: float = _asked(1e9, "events a day")
    peak: float = _asked(2.0, "the busiest minute over the mean, 1 to 2")
    broker_sinks: int = _asked(1, "of Kafka and AMQP, how many take each event")
    deliveries: float = _asked(1.0, "webhooks for each event")
    retention_days: float = _asked(7.0, "days until events are dropped")

    def rate(self, minute: int) -> float:
        """Events per second in this minute; night at 0, the peak at noon."""
        return self.events / 86_400 * (1 - (self.peak - 1) * math.cos(2 * math.pi * minute / _MINUTES))


@dataclass(frozen=True)
class Stage:
    """One resource: what it can carry, in events per second."""

    name: str
    capacity: float
    remedy: str


@dataclass(frozen=True)
class Strain:
    """A stage's day: ``load`` at the peak (1 is full), ``backlog_max`` events, ``delay_max`` seconds.

    What waits before "publish" waits at the clients: they are told 503 and Retry-After.
    """

    stage: Stage
    load: float
    backlog_max: float
    delay_max: float


def stages(site: Site, day: Day, costs: Costs) -> list[Stage]:
    """The resources in the order in which an event meets them; those that this day does not use are left out."""
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
    """Let the day pass. A stage that can't follow queues what comes, and hands on no more than it can carry."""
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
    """The resource that is full first when the load grows."""
    return min(stages(site, day, costs), key=lambda stage: stage.capacity)


def disk_terabytes(day: Day, costs: Costs) -> float:
    """What is kept until retention."""
    return day.events * day.retention_days * (costs.event_disk + day.deliveries * costs.attempt_disk) / 1e12


def report(site: Site, day: Day, costs: Costs) -> Iterator[str]:
    """The lines to print."""
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
