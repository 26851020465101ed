"""``hookwire pipeline archive``, ``runs`` and ``doctor``: archive Kafka, list runs, check the requirements."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.entry import Config, Json, say, settings_from
from app.cli.pipeline.archive_metrics import ArchiveMetrics
from app.cli.pipeline.lake import Conf, DryRun, Lake, lake_of, session, tell, told_failures, with_conf
from app.settings.settings import Settings
from runtime.counted import counted

if TYPE_CHECKING:
    from pipeline.archive import Archived, ArchiveOptions
    from pipeline.kafka_range import RangePlan
    from pipeline.storage import LakeStorage

__all__ = ["archive", "doctor", "runs"]


class KafkaSource(StrEnum):
    """The program that reads Kafka: our source or Spark's connector."""

    PYTHON = "python"
    JVM = "jvm"


Master = Annotated[
    str | None, typer.Option("--master", help="Spark's master, such as spark://host:7077 (HOOKWIRE_PIPELINE_MASTER).")
]
Source = Annotated[
    KafkaSource | None,
    typer.Option("--source", help="Our reader, without jars, or Spark's connector (HOOKWIRE_PIPELINE_SOURCE)."),
]
Topics = Annotated[list[str] | None, typer.Option("--topic", help="This Kafka topic; repeatable. Default: all.")]
BatchRecords = Annotated[int, typer.Option("--batch", min=1, help="The largest number of records in a batch.")]
AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss", help="Continue after a loss: retention deleted records, or a topic was created again."
    ),
]
Follow = Annotated[float | None, typer.Option("--follow", min=0.1, help="Do not end: archive again every SECONDS.")]
Metrics = Annotated[Path | None, typer.Option("--metrics", help="Write figures for Prometheus' textfile collector.")]
_KEYS: Final = "HOOKWIRE_SECRET_KEYS, or else secret.keys in HOOKWIRE_DATA_DIR"
Last = Annotated[int, typer.Option("--last", min=1, help="How many of the newest runs to list.")]


def archive(
    topic: Topics = None, lake: Lake = None, source: Source = None, batch: BatchRecords = 1_000_000,
    accept_loss: AcceptLoss = False, follow: Follow = None, dry_run: DryRun = False, master: Master = None,
    metrics: Metrics = None, conf: Conf = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Archive the records of Kafka, each exactly once, as Parquet; begin where the last run ended.

    Exit code 1: a partition could not be read further, or retention deleted records before they were archived. SIGTERM
    or Ctrl-C ends the command after the batch, a second signal ends it at once. Neither loses or doubles a record.

    Examples:

      hookwire pipeline archive --dry-run

      hookwire pipeline archive --follow 60

      hookwire pipeline archive --topic orders --source jvm --master spark://spark:7077 --lake s3a://lake/hookwire
    """
    settings = with_conf(_chosen(settings_from(config), pipeline_source=source, pipeline_master=master), conf)
    place = lake_of(lake, settings)
    from app.cli.pipeline.auditing.seals import keys_here, tell_key
    from app.cli.pipeline.options import kafka_of
    from pipeline.archive import ArchiveOptions, plan_archive
    from pipeline.lake import bronze

    options = ArchiveOptions(tuple(topic or ()), settings.kafka_topic_prefix, batch, accept_loss)
    with told_failures():
        if dry_run:
            plan = plan_archive(bronze(place), kafka_of(settings), options)
            _say_plan(plan, as_json)
            raise typer.Exit(1 if any(problem.kind != "gone" for problem in plan.problems) else 0)
        seals = keys_here(settings)
        if not seals.keys:
            tell(f"the hub's keys are not here, so the records get no seals ({_KEYS})")
        else:
            tell_key(settings, place, seals)
        done = _archive(settings, place, replace(options, seals=seals), follow, ArchiveMetrics(metrics))
    if as_json:
        say(json.dumps(_as_json(done)))
    else:
        read = f"{counted(done.rows, 'record')} in {counted(done.batches, 'batch')}"
        say(f"{read}; {done.quarantined:,} in quarantine; {place.uri}")
        _say_problems(done.problems)
    raise typer.Exit(1 if done.findings else 0)


def _archive(
    settings: Settings, place: LakeStorage, options: ArchiveOptions, follow: float | None, metrics: ArchiveMetrics
) -> Archived:
    from app.cli.pipeline.auditing.seals import note_archived
    from app.cli.pipeline.marks import marked
    from app.cli.pipeline.options import kafka_of
    from app.cli.process.stop import Stop
    from pipeline.archive import Archived, archive
    from pipeline.compaction import Upkeep
    from pipeline.lake import bronze
    from pipeline.runs import recorded_run

    kafka = kafka_of(settings)
    inputs = {"kafka": kafka.bootstrap_servers, "source": kafka.source, "topics": options.topics or "all"}
    done, is_noted, table = Archived(), False, bronze(place)
    with marked(settings, place, [table]) as marks, recorded_run(place, "archive", inputs) as run:
        with Stop() as stop:

            def spark() -> Any:
                made = session("archive", settings)
                stop.listen()  # Spark takes Ctrl-C for itself
                return made

            upkeep = Upkeep(spark, table, run.id)
            while not stop.is_asked:
                metrics.begin_round(done)

                def told(so_far: Archived, before: Archived = done) -> None:
                    run.counts = _as_json(before + so_far)
                    metrics.write(before + so_far)
                    _show(before + so_far)

                made = archive(spark, table, kafka, options, run.id, told, is_stopping=lambda: stop.is_asked)
                done += made
                metrics.write(done)
                if made.batches and not stop.is_asked:
                    _tell_failed(upkeep.done(datetime.now(UTC).date()))
                if done.rows and not is_noted and options.seals.keys:
                    is_noted = note_archived(settings, place, spark(), options.seals)
                if follow is None:
                    break
                marks.store()
                stop.wait(follow)
                marks.refuse_others()
            _tell_failed(upkeep.ended())
        run.counts = _as_json(done)
        run.state = "findings" if done.findings else "done"
    return done


def _tell_failed(failure: str | None) -> None:
    if failure is not None:
        tell(f"small files were not merged, or the log was not shortened: {failure}")


def runs(last: Last = 20, lake: Lake = None, as_json: Json = False, config: Config = None) -> None:
    """List all runs of jobs on the lake, newest first.

    Example:

      hookwire pipeline runs --last 5 --json
    """
    place = lake_of(lake, settings_from(config))
    from pipeline.runs import runs as all_runs

    with told_failures():
        found = all_runs(place)[:last]
    if as_json:
        say(json.dumps([asdict(run) for run in found]))
        return
    from app.cli.table import show

    rows = [
        (run.started_at[:19], run.job, run.state, "" if run.seconds is None else f"{run.seconds:.1f} s",
         run.error or ", ".join(f"{name} {value}" for name, value in run.counts.items() if value), run.code)
        for run in found
    ]  # fmt: skip
    show(("Started", "Job", "State", "Took", "Counts", "Code"), rows, folds=("Counts",))


def doctor(lake: Lake = None, master: Master = None, as_json: Json = False, config: Config = None) -> None:
    """Check the requirements: Java, packages, Kafka, the lake, Spark and its workers. It changes nothing.

    Exit code 0: no findings; 1: findings; 3: Kafka cannot be reached.

    Example:

      hookwire pipeline doctor --json
    """
    settings = _chosen(settings_from(config), pipeline_master=master)
    place = lake_of(lake, settings)
    from app.cli.commands.doctor import print_checks
    from app.cli.pipeline.checks import pipeline_checks

    raise typer.Exit(print_checks(list(pipeline_checks(settings, place)), as_json=as_json))


def _chosen(settings: Settings, **given: str | None) -> Settings:
    """Return the settings, overridden by the options of the command."""
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})


def _as_json(done: Archived) -> dict[str, Any]:
    return {**asdict(done), "problems": [problem._asdict() for problem in done.problems]}


def _say_plan(plan: RangePlan, as_json: bool) -> None:
    if as_json:
        ranges = [of._asdict() for of in plan.ranges]
        problems = [problem._asdict() for problem in plan.problems]
        say(json.dumps({"ranges": ranges, "waiting": plan.waiting, "problems": problems}))
        return
    for of in plan.ranges:
        say(f"{of.topic} {of.partition}: offsets {of.start:,} to {of.until - 1:,}")
    say(f"would read {counted(plan.size, 'offset')} in the next batch, and {plan.waiting:,} after it")
    _say_problems(plan.problems)


def _say_problems(problems: Sequence[Any]) -> None:
    for problem in problems:
        say(f"{'note' if problem.kind == 'gone' else 'finding'}: {problem.sentence}")


def _show(done: Archived) -> None:
    """Overwrite the progress line, on a terminal only."""
    if sys.stderr.isatty():
        read = f"{counted(done.rows, 'record')} in {counted(done.batches, 'batch')}"
        text = f"\rarchived {read}, {counted(done.waiting, 'offset')} to go "
        print(text, end="" if done.waiting else "\n", file=sys.stderr, flush=True)  # noqa: T201
