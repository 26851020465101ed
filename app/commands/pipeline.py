"""``hookwire pipeline``: the jobs of the lake, one verb each."""

from __future__ import annotations

import typer

from app.commands.pipeline_archive import archive, doctor, runs
from app.commands.pipeline_audit import audit
from app.commands.pipeline_insight import anomaly, deadletter, schema, usage
from app.commands.pipeline_replay import replay
from app.commands.pipeline_report import report
from app.commands.pipeline_service import deliveries, metrics, slo
from app.commands.pipeline_upkeep import check, compact, erase, retain

__all__ = ["pipeline"]

pipeline = typer.Typer(
    help="The lake: archive the event stream, prove that nothing is missing, replay (needs the extra spark and Java).",
    no_args_is_help=True,
)
for verb in (
    archive, runs, doctor, audit, replay, report, deliveries, metrics, slo, usage, anomaly, schema, deadletter, compact,
    check, retain, erase,
):  # fmt: skip
    pipeline.command()(verb)
