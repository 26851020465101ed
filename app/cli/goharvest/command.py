"""``hookwire relay --compat``: print the meaning of each key of the file, then relay."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from app.cli.entry import run, say
from app.cli.goharvest.reaper_yaml import Imported, Line, import_reaper
from app.cli.goharvest.relay import Compat, serve_compat
from app.log import configure_logging
from app.settings.settings import Settings, SettingsRefused, load_settings
from event.partition import Scheme
from relay.goharvest.compat import CompatOptions

__all__ = ["relay_compat"]

_PARTITIONERS = (
    "choose where keys go: --partitioner crc32 is goharvest's default (librdkafka's), each key stays on its partition;"
    " --partitioner murmur2 is that of Java clients, keys move to other partitions, so let every consumer first read"
    " all of goharvest's records (RK-22)"
)


def relay_compat(
    config: Path | None, file: Path | None, table: str | None, partitioner: str | None, *, check: bool, as_json: bool
) -> None:
    """Print the report, then relay unless only the report was requested. Exit with the command's exit code."""
    imported = import_reaper(file) if file is not None else Imported(table=table or "outbox")
    if file is not None and table is not None:
        imported.table = table
    _report(imported, as_json=as_json, result=check)
    if imported.refused:
        raise SettingsRefused(
            f"{file}: {len(imported.refused)} of its keys are refused, see above; remove or change them"
        )
    settings = _settings(config, imported)
    if file is not None and settings.outbox_url is not None:
        raise SettingsRefused("HOOKWIRE_OUTBOX_URL: a reaper.yaml names a table in PostgreSQL; use --compat-table")
    if partitioner is not None:
        settings = settings.model_copy(update={"kafka_partitioner": _scheme(partitioner)})
    elif file is not None and "kafka_partitioner" not in settings.model_fields_set:
        raise SettingsRefused(_PARTITIONERS)
    if check:
        sys.exit(0)
    compat = Compat(imported.table, CompatOptions(**imported.options), imported.meter_seconds)
    run(serve_compat(settings, compat))


def _settings(config: Path | None, imported: Imported) -> Settings:
    """Return the file's settings, under those of the environment and of our own file."""
    settings = load_settings(file=config, defaults=imported.settings)
    configure_logging(settings.log_format, settings.log_level)
    return settings


def _scheme(name: str) -> str:
    try:
        return Scheme(name).value
    except ValueError:
        raise SettingsRefused(f"--partitioner is crc32 or murmur2, not {name!r}") from None


def _report(imported: Imported, *, as_json: bool, result: bool) -> None:
    """Print the report: on standard output if it is the command's result, else on standard error."""
    if as_json:
        text = "\n".join(json.dumps(asdict(line)) for line in imported.lines)
    else:
        width = max((len(line.key) for line in imported.lines), default=0)
        text = "\n".join(_row(line, width) for line in imported.lines)
    if text and result:
        say(text)
    elif text:
        print(text, file=sys.stderr)  # noqa: T201 - this is the command's voice


def _row(line: Line, width: int) -> str:
    return f"{line.line:>4}  {line.key:<{width}}  {line.verdict:<10}  {line.becomes}"
