"""``hookwire prove``: kills and pauses against processes of its own, counted from the clients' side."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.entry import Config, Json, run, settings_from, tell

__all__ = ["prove"]

Seconds = Annotated[float, typer.Option("--seconds", help="About how long the whole run takes.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Repeat a run: the same faults in the same order.")]
SeedBug = Annotated[str | None, typer.Option("--seed-bug", help="Build in a known bug, which the run must then find.")]
FormerSeedBug = Annotated[str | None, typer.Option("--break", hidden=True)]


def prove(
    seconds: Seconds = 45.0, seed: Seed = None, seed_bug: SeedBug = None, former_seed_bug: FormerSeedBug = None,
    as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Start two services on an own database, kill and pause them under load, and print what the clients saw.

    Exit code 0: nothing lost, nothing reordered. 1: a promise was broken. 2: with --seed-bug, a run that failed
    although the counts did not find the bug, for example by the crash of a process.

    Examples:

      hookwire prove

      hookwire prove --seed 4711 --seconds 60

      hookwire prove --seed-bug no-term-check
    """
    from app.chaos.prove import ProveOptions
    from app.chaos.prove import prove as prove_hub

    if former_seed_bug is not None:
        tell("--break is now called --seed-bug; the old name will go")
    settings_from(config)
    run(prove_hub(ProveOptions(seconds=seconds, seed=seed, seed_bug=seed_bug or former_seed_bug, json=as_json)))
