"""``hookwire pipeline``: the jobs of the lake, one verb each."""

from __future__ import annotations

import typer

from app.cli.pipeline.archive import archive, doctor, runs
from app.cli.pipeline.audit import audit
from app.cli.pipeline.backfilling.command import backfill
from app.cli.pipeline.check import accept_commit, accept_log, accept_seals, check, convert, forget
from app.cli.pipeline.erasure import erase
from app.cli.pipeline.insight import anomaly, deadletter, schema, usage
from app.cli.pipeline.replay import replay
from app.cli.pipeline.report import report
from app.cli.pipeline.service import deliveries, metrics, slo
from app.cli.pipeline.typed import typed, views
from app.cli.pipeline.upkeep import compact, retain

__all__ = ["pipeline"]

pipeline = typer.Typer(
    help="The lake: archive the event stream, prove that nothing is missing, replay (needs the extra spark and Java).",
    no_args_is_help=True,
)
for verb in (
    archive, runs, doctor, audit, replay, backfill, report, deliveries, metrics, slo, usage, anomaly, schema,
    typed, views, deadletter, compact, check, accept_commit, accept_log, accept_seals, forget, convert, retain, erase,
):  # fmt: skip
    pipeline.command()(verb)
