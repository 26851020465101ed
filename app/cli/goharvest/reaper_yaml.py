"""Read ``reaper.yaml``, goharvest's configuration: each key becomes a setting, or is refused.

Both forms are read: the reaper's, with the key ``harvest``, and that of the library's Config, without it.

No key is ignored silently. A key is taken, has no meaning here (and the report says why), or is refused. One refusal
refuses the file. goharvest's own rules hold too: an unknown key and a reserved client property are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from app.cli.goharvest.data_source import described, postgres_url, warning_of
from app.settings.file import SettingsRefused, hint

__all__ = ["Imported", "Line", "Verdict", "import_reaper"]

Verdict = Literal["taken", "no meaning", "refused"]


@dataclass(frozen=True, slots=True)
class Line:
    """One key of the file, such as ``harvest.limits.markBackoff``, with its meaning here and its line in the file."""

    key: str
    verdict: Verdict
    becomes: str
    line: int


@dataclass(slots=True)
class Imported:
    """The settings in the file. ``settings`` are fields of :class:`app.settings.settings.Settings`, ``options`` of
    :class:`relay.goharvest.compat.CompatOptions`."""

    lines: list[Line] = field(default_factory=list)
    table: str = "outbox"
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    meter_seconds: float = 5.0

    @property
    def refused(self) -> list[Line]:
        """Return the lines that refuse the file."""
        return [line for line in self.lines if line.verdict == "refused"]


_Take = Callable[[Imported, Any], str]
_Entry = _Take | str  # a string says why the key has no meaning here
_MERGE: Final = "tag:yaml.org,2002:merge"
_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?<![\d.])(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|\u00b5s|ms|s|m|h)")


class _Mapping(dict[Any, Any]):
    """A mapping of the file, with the line of each key and the lines of repeated keys."""

    lines: dict[Any, int]
    again: list[tuple[Any, int]]


class _Loader(yaml.SafeLoader):
    """YAML 1.1 without tags of Python's."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> _Mapping:
    keys = [(key.value, key.start_mark.line + 1) for key, _ in node.value if key.tag != _MERGE]
    found = _Mapping(loader.construct_mapping(node, deep=True))
    found.lines, found.again = dict.fromkeys(found, node.start_mark.line + 1), []
    named: set[Any] = set()
    for key, line in keys:
        if isinstance(key, str):
            found.again += [(key, line)] if key in named else []
            found.lines[key] = line
            named.add(key)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def import_reaper(path: Path) -> Imported:
    """Read the file; raises SettingsRefused when it is no YAML mapping. The report judges its contents."""
    document = _read(path)
    if not isinstance(document, _Mapping):
        raise SettingsRefused(f"{path}: a mapping is expected: the key harvest, or the keys of goharvest's Config")
    imported = Imported()
    imported.settings["database_url"] = postgres_url(
        "host=localhost port=5432 user=postgres dbname=postgres sslmode=disable"
    )
    imported.settings["kafka_bootstrap_servers"] = "localhost:9092"
    _walk(imported, "", document, _TOP if "harvest" in document else _LIBRARY)
    return imported


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f"{path}, line {at.line + 1}" if at is not None else str(path)
        raise SettingsRefused(f"{where}: {error.problem or error.context}") from None
    except OSError as error:
        raise SettingsRefused(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsRefused(f"{path}: {' '.join(str(error).split())}") from None


def _walk(imported: Imported, prefix: str, found: _Mapping, known: Mapping[str, Any]) -> None:
    for key, line in found.again:
        imported.lines.append(
            Line(f"{prefix}{key}", "refused", "the key is in the file twice; remove one of them", line)
        )
    for key, value in found.items():
        name, line = f"{prefix}{key}", found.lines[key]
        entry = known.get(key) if isinstance(key, str) else None
        if entry is None:
            imported.lines.append(Line(name, "refused", _unknown(prefix, str(key), known), line))
        elif isinstance(entry, Mapping):
            _walk_into(imported, name, value, entry, line)
        else:
            imported.lines.append(_judged(imported, name, value, entry, line))


def _unknown(prefix: str, key: str, known: Mapping[str, Any]) -> str:
    who = "hookwire knows no such property of librdkafka" if "KafkaConfig." in prefix else "goharvest has no such key"
    return who + hint(key, known)


def _walk_into(imported: Imported, name: str, value: Any, known: Mapping[str, Any], line: int) -> None:
    if isinstance(value, _Mapping):
        _walk(imported, f"{name}.", value, known)
    elif value is not None:
        imported.lines.append(Line(name, "refused", "a mapping is expected", line))


def _judged(imported: Imported, name: str, value: Any, entry: _Entry, line: int) -> Line:
    if isinstance(entry, str):
        return Line(name, "no meaning", entry, line)
    try:
        return Line(name, "taken", entry(imported, value), line)
    except OSError as error:
        return Line(name, "refused", f"{error.filename}: {error.strerror}", line)
    except ValueError as error:
        return Line(name, "refused", str(error), line)


# --- values -----------------------------------------------------------------------------------------------------


def _seconds(value: Any) -> float:
    """Return a duration of Go: ``1.5s``, ``1m30s``; a bare number counts nanoseconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1e-9
    text = str(value)
    parts = _DURATION.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(parts) != text:
        raise ValueError(f"{value!r} is not a duration such as 500ms or 1m30s")
    return sum(float(re.sub(r"[^\d.]", "", part)) * _UNIT_SECONDS[re.sub(r"[\d.]", "", part)] for part in parts)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is not a number of 1 or more")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool) or value == "":
        raise ValueError("a text is expected")
    return str(value)


# --- keys -------------------------------------------------------------------------------------------------------


def _setting(name: str, read: Callable[[Any], Any]) -> _Take:
    def take(imported: Imported, value: Any) -> str:
        imported.settings[name] = read(value)
        return f"HOOKWIRE_{name.upper()} = {imported.settings[name]}"

    return take


def _option(name: str, read: Callable[[Any], Any]) -> _Take:
    def take(imported: Imported, value: Any) -> str:
        imported.options[name] = read(value)
        return f"{name} = {imported.options[name]:g}"

    return take


def _take_source(imported: Imported, value: Any) -> str:
    source = _text(value)
    imported.settings["database_url"] = postgres_url(source)
    doubt = warning_of(source)
    return f"HOOKWIRE_DATABASE_URL = {described(source)}" + (f". Warning: {doubt}" if doubt else "")


def _take_table(imported: Imported, value: Any) -> str:
    imported.table = _text(value)
    return f"--compat-table {imported.table}"


def _take_meter(imported: Imported, value: Any) -> str:
    imported.meter_seconds = max(_seconds(value), 0.1)
    return f"the meter is read every {imported.meter_seconds:g} s, also when nothing moves"


def _take_lease(imported: Imported, value: Any) -> str:
    seconds = min(max(_seconds(value), 0.5), 300.0)
    imported.settings["lease_seconds"] = seconds
    return f"HOOKWIRE_LEASE_SECONDS = {seconds:g}"


def _take_batch(imported: Imported, value: Any) -> str:
    limit = min(_count(value), imported.options.get("batch_records_max", value))
    imported.options["batch_records_max"] = limit
    return f"batch_records_max = {limit} (2000 if left out)"


def _take_level(imported: Imported, value: Any) -> str:
    levels = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "error": "error"}
    if str(value).lower() not in levels:
        raise ValueError(f"{value!r} is none of {', '.join(levels)}")
    imported.settings["log_level"] = levels[str(value).lower()]
    return f"HOOKWIRE_LOG_LEVEL = {imported.settings['log_level']}"


def _word(*words: str) -> Callable[[Any], str]:
    """Return a word of this list, regardless of upper and lower case."""

    def read(value: Any) -> str:
        if str(value).upper() not in words:
            raise ValueError(f"{value!r} is none of {', '.join(words)}")
        return str(value).upper()

    return read


def _file(value: Any) -> Path:
    path = Path(_text(value))
    path.read_bytes()
    return path


def _take_password(imported: Imported, value: Any) -> str:
    imported.settings["kafka_sasl_password"] = _text(value)
    return "HOOKWIRE_KAFKA_SASL_PASSWORD"


def _take_acks(imported: Imported, value: Any) -> str:
    if str(value) not in ("all", "-1"):
        raise ValueError("fewer acknowledgements than all lose records; hookwire always uses all")
    return "hookwire always uses all"


def _take_partitioner(imported: Imported, value: Any) -> str:
    schemes = {
        "consistent": "crc32", "consistent_random": "crc32", "murmur2": "murmur2", "murmur2_random": "murmur2",
    }  # fmt: skip
    if value not in schemes:
        raise ValueError(f"{value!r} does not keep a key on one partition, or is not known here: {', '.join(schemes)}")
    imported.settings["kafka_partitioner"] = schemes[value]
    return f"HOOKWIRE_KAFKA_PARTITIONER = {schemes[value]}"


def _reserved(imported: Imported, value: Any) -> str:
    raise ValueError("cannot override: goharvest sets it itself")


_NO_TUNING = "tunes librdkafka; hookwire builds its batches itself"
_ELECTION = "leadership is a lease in PostgreSQL here: stop goharvest before this relay starts"
_RESERVED = ("group.id", "enable.auto.commit", "session.timeout.ms", "delivery.timeout.ms", "linger.ms")
_TUNING = (
    "batch.num.messages", "batch.size", "queue.buffering.max.messages", "queue.buffering.max.kbytes",
    "queue.buffering.max.ms", "message.max.bytes", "socket.timeout.ms", "socket.keepalive.enable",
    "socket.send.buffer.bytes", "socket.receive.buffer.bytes", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "retry.backoff.ms", "retries", "message.send.max.retries", "request.timeout.ms", "max.in.flight",
    "max.in.flight.requests.per.connection", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms",
    "statistics.interval.ms", "log.connection.close", "log_level", "debug", "api.version.request",
    "broker.version.fallback", "broker.address.family", "heartbeat.interval.ms", "max.poll.interval.ms",
    "fetch.wait.max.ms", "auto.offset.reset", "partition.assignment.strategy", "compression.level",
)  # fmt: skip
_MECHANISM = _setting("kafka_sasl_mechanism", _word("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
_CODEC = _word("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD")
_COMPRESSION = _setting("kafka_compression", lambda value: _CODEC(value).lower())
_PROPERTIES: Mapping[str, _Entry] = {
    "bootstrap.servers": _setting("kafka_bootstrap_servers", _text),
    "metadata.broker.list": _setting("kafka_bootstrap_servers", _text),
    "client.id": "logs and the broker see this relay's own name",
    "security.protocol": _setting("kafka_security_protocol", _word("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "sasl.mechanism": _MECHANISM,
    "sasl.mechanisms": _MECHANISM,
    "sasl.username": _setting("kafka_sasl_username", _text),
    "sasl.password": _take_password,
    "ssl.ca.location": _setting("kafka_tls_ca", _file),
    "ssl.certificate.location": _setting("kafka_tls_certificate", _file),
    "ssl.key.location": _setting("kafka_tls_key", _file),
    "compression.type": _COMPRESSION,
    "compression.codec": _COMPRESSION,
    "acks": _take_acks,
    "request.required.acks": _take_acks,
    "partitioner": _take_partitioner,
    "enable.idempotence": _reserved,
    **dict.fromkeys(_TUNING, _NO_TUNING),
}
_TOP: Mapping[str, Any] = {
    "harvest": {
        "baseKafkaConfig": {**_PROPERTIES, **dict.fromkeys(_RESERVED, _reserved)},
        "producerKafkaConfig": {**dict.fromkeys(_RESERVED, _NO_TUNING), **_PROPERTIES},
        "leaderTopic": _ELECTION,
        "leaderGroupID": _ELECTION,
        "dataSource": _take_source,
        "outboxTable": _take_table,
        "name": "logs and the lease name this relay by host and process",
        "limits": {
            "ioErrorBackoff": _option("backoff_seconds_first", lambda value: max(_seconds(value), 0.01)),
            "pollDuration": "nothing is polled from Kafka to lead",
            "minPollInterval": "nothing is polled from Kafka to lead; a lease is renewed every third of its length",
            "maxPollInterval": "the lease limits how long a hanging relay leads",
            "heartbeatTimeout": _take_lease,
            "drainInterval": "no record waits for a busy key: a batch holds a key's records in order",
            "queueTimeout": "no record waits for a busy key: a batch holds a key's records in order",
            "markBackoff": _option("poll_seconds_min", lambda value: max(_seconds(value), 0.001)),
            "maxInFlightRecords": _take_batch,
            "sendConcurrency": "one producer sends to all partitions at once",
            "sendBuffer": "it has no effect in goharvest either",
            "markQueryRecords": _take_batch,
            "minMetricsInterval": _take_meter,
        },
    },
    "logging": {"level": _take_level},
}  # fmt: skip
_LIBRARY: Mapping[str, Any] = {**_TOP["harvest"], "logging": _TOP["logging"], "harvest": _TOP["harvest"]}
"""The form of a program that embeds goharvest: its Config has these keys at the top."""
