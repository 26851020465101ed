"""``hookwire prove``: kill and pause own processes under load, then count events from the clients' side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.entry import Config, Json, run, settings_from
from app.settings.settings import SettingsRefused

__all__ = ["prove"]

Seconds = Annotated[float, typer.Option("--seconds", help="The approximate time of a run on a quiet machine.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Repeat a run: the same faults in the same order.")]
SeedBug = Annotated[
    str | None, typer.Option("--seed-bug", help="Run the services with this known bug, which the run then has to find.")
]
Report = Annotated[Path | None, typer.Option("--report", help="Also write the result to this file, as an HTML page.")]


def prove(
    seconds: Seconds = 45.0, seed: Seed = None, seed_bug: SeedBug = None, report: Report = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Kill and pause own services under load, then count the events that their clients got: PASS, FAIL or NOT FINISHED.

    It starts two services on a database of its own, so it touches none of your data. On a quiet machine a run takes
    some 45 seconds. After the faults, and again after a last restart, it waits for events that are on their way. It
    waits as long as their number falls, and at most ten minutes each time. It gives up after 20 seconds without a
    lower number.

    Exit code 0: nothing lost, nothing reordered. 1: a promise was broken. 2: with --seed-bug, a run that failed
    although the counts did not find the bug, for example by the crash of a process. 4: not finished, because events are
    still on their way, or because a fault took too long. Then nothing is known to be wrong; run it again on a machine
    that is less busy.

    Examples:

      hookwire prove

      hookwire prove --report prove.html

      hookwire prove --seed 4711 --seconds 60

      hookwire prove --seed-bug no-term-check
    """
    from app.chaos.prove import ProveOptions
    from app.chaos.prove import prove as prove_hub

    settings_from(config)
    if report is not None and not report.parent.is_dir():
        raise SettingsRefused(f"--report: the folder {report.parent} does not exist")
    options = ProveOptions(seconds, seed, seed_bug, as_json, report)
    run(prove_hub(options))
