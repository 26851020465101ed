"""Helpers of the pipeline's commands: find the lake, start Spark, turn errors into one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.failure import CommandFailed
from app.settings.settings import Settings

if TYPE_CHECKING:
    from pipeline.storage import LakeStorage

__all__ = ["STORE_SETTINGS", "Conf", "Lake", "lake_of", "session", "tell", "told_failures", "with_conf"]

STORE_SETTINGS = "see HOOKWIRE_PIPELINE_LAKE and HOOKWIRE_PIPELINE_S3_*"

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
Lake = Annotated[
    str | None,
    typer.Option(
        "--lake", help="The lake, a folder or URI (default: HOOKWIRE_PIPELINE_LAKE, else lake/ in the data folder)."
    ),
]
Topic = Annotated[str | None, typer.Option("--topic", help="This Kafka topic only.")]


Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="A setting of Spark, name=value; repeatable, wins (HOOKWIRE_PIPELINE_CONF)."),
]


def with_conf(settings: Settings, conf: list[str] | None) -> Settings:
    """Return the settings with these settings of Spark. Raises ``CommandFailed`` for a text that is not name=value."""
    pairs = [text.partition("=") for text in conf or ()]
    if wrong := [name for name, equals, _ in pairs if not equals or not name.startswith("spark.")]:
        raise CommandFailed(f"--conf {wrong[0]}: give it as spark.name=value", 2)
    return settings.model_copy(update={"pipeline_conf": settings.pipeline_conf | {name: v for name, _, v in pairs}})


def lake_of(given: str | None, settings: Settings) -> LakeStorage:
    """Return the lake. Raises ``CommandFailed`` if it cannot be used."""
    try:
        from app.cli.pipeline.options import s3_of
        from pipeline.storage import LakeStorage, StorageError
    except ImportError as error:
        raise CommandFailed(f"{error}: install hookwire-server with the extra spark", 2) from None
    try:
        return LakeStorage(given or settings.pipeline_lake or str(settings.data_dir / "lake"), s3_of(settings))
    except StorageError as error:
        raise CommandFailed(f"{error} ({STORE_SETTINGS})", 3) from None


def session(name: str, settings: Settings) -> Any:
    """Return the Spark session of this process. Raises ``CommandFailed`` if Java or required jars are missing."""
    from app.cli.pipeline.options import session_of
    from pipeline.java import JavaMissing, java_major
    from pipeline.kafka_jars import JarsMissing
    from pipeline.session import SessionFailed, SettingRefused, spark_session

    try:
        java_major()
        options = session_of(settings)
    except (JavaMissing, JarsMissing) as missing:
        raise CommandFailed(str(missing), 3) from None
    try:
        return spark_session(replace(options, name=f"hookwire {name}"))
    except SettingRefused as error:
        raise CommandFailed(str(error), 2) from None
    except SessionFailed as error:
        raise CommandFailed(str(error), 3) from error


@contextmanager
def told_failures() -> Iterator[None]:
    """Turn the expected errors of a job into ``CommandFailed``, with one sentence and an exit code."""
    try:
        from pipeline.archive import ArchiveFailed
        from pipeline.failure import SparkFailed, named
        from pipeline.kafka_reader import KafkaUnreachable
        from pipeline.lake import LakeConflict, LakeDamaged
        from pipeline.storage import DiskFull, StorageError
    except ImportError as error:
        raise CommandFailed(f"{error}: install hookwire-server with the extra spark", 2) from None
    try:
        with named():
            yield
    except KafkaUnreachable as error:
        raise CommandFailed(str(error), 3) from error
    except (ArchiveFailed, DiskFull, LakeConflict, LakeDamaged, SparkFailed) as error:
        raise CommandFailed(str(error), 1) from error
    except StorageError as error:
        raise CommandFailed(f"{error} ({STORE_SETTINGS})", 3) from error


def tell(text: str) -> None:
    """Print progress to standard error, apart from the result."""
    print(f"hookwire: {text}", file=sys.stderr)  # noqa: T201 - this is the command's voice
