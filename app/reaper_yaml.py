"""``reaper.yaml``, goharvest's configuration, key by key: what each becomes here, or that it is refused (RO-12, RG-09).

Nothing is passed over: a key is taken, has no meaning here (and the report says why), or is refused, and one refusal
refuses the file. goharvest's own rules hold too: an unknown key and a reserved client property are errors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import yaml

from app.settings import SettingsRefused

__all__ = ["Imported", "Line", "Verdict", "import_reaper"]

Verdict = Literal["taken", "no meaning", "refused"]


@dataclass(frozen=True, slots=True)
class Line:
    """One key of the file, as ``harvest.limits.markBackoff``, and what it becomes."""

    key: str
    verdict: Verdict
    becomes: str


@dataclass(slots=True)
class Imported:
    """The file in our words. ``settings`` are fields of :class:`app.settings.Settings`, ``options`` of
    :class:`relay.compat.CompatOptions`, ``kafka`` of :class:`relay.kafka_options.KafkaOptions`."""

    lines: list[Line] = field(default_factory=list)
    table: str = "outbox"
    settings: dict[str, Any] = field(default_factory=dict)
    kafka: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    meter_seconds: float = 5.0

    @property
    def refused(self) -> list[Line]:
        """The lines that refuse the file."""
        return [line for line in self.lines if line.verdict == "refused"]


_Take = Callable[[Imported, Any], str]
_Entry = _Take | str  # a string says why the key has no meaning here
_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|\u00b5s|ms|s|m|h)")
_DSN_PART = re.compile(r"\s*([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']*)")


def import_reaper(path: Path) -> Imported:
    """Read the file; raises SettingsRefused when it is no YAML mapping. What it holds is judged in the report."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsRefused(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SettingsRefused(f"{path}: a mapping with the key harvest is expected")
    imported = Imported()
    imported.settings["database_url"] = _database_url(
        "host=localhost port=5432 user=postgres dbname=postgres sslmode=disable"
    )
    imported.settings["kafka_bootstrap_servers"] = "localhost:9092"
    _walk(imported, "", document, _TOP)
    return imported


def _walk(imported: Imported, prefix: str, found: Mapping[Any, Any], known: Mapping[str, Any]) -> None:
    for key, value in found.items():
        name = f"{prefix}{key}"
        entry = known.get(key) if isinstance(key, str) else None
        if entry is None:
            nearest = difflib.get_close_matches(str(key), known, 1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            imported.lines.append(Line(name, "refused", f"goharvest has no such key{hint}"))
        elif isinstance(entry, Mapping):
            _walk_into(imported, name, value, entry)
        else:
            imported.lines.append(_judged(imported, name, value, entry))


def _walk_into(imported: Imported, name: str, value: Any, known: Mapping[str, Any]) -> None:
    if not isinstance(value, dict | None):
        imported.lines.append(Line(name, "refused", "a mapping is expected"))
        return
    _walk(imported, f"{name}.", value or {}, known)


def _judged(imported: Imported, name: str, value: Any, entry: _Entry) -> Line:
    if isinstance(entry, str):
        return Line(name, "no meaning", entry)
    try:
        return Line(name, "taken", entry(imported, value))
    except (ValueError, OSError) as error:
        return Line(name, "refused", str(error))


# --- values -----------------------------------------------------------------------------------------------------


def _seconds(value: Any) -> float:
    """A duration of Go: ``1.5s``, ``1m30s``; a bare number counts nanoseconds."""
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


def _database_url(source: str) -> str:
    """A PostgreSQL URL for what lib/pq calls a connection string, or the URL that it is already."""
    if source.startswith(("postgres://", "postgresql://")):
        return source
    parts = {name: re.sub(r"\\(.)", r"\1", value.strip("'")) for name, value in _DSN_PART.findall(source)}
    if not parts or _DSN_PART.sub("", source).strip():
        raise ValueError("not a connection string such as host=localhost port=5432 user=app dbname=shop")
    known = {
        "host",
        "port",
        "user",
        "password",
        "dbname",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "connect_timeout",
    }
    if strange := parts.keys() - known:
        raise ValueError(f"{', '.join(sorted(strange))}: no such parameter here; {', '.join(sorted(known))}")
    if parts.get("password", "").partition("=")[0] in known:
        raise ValueError(
            "an empty password needs quotes, password='': goharvest's driver, too, takes what follows password= for the"
            f" password, here {parts['password']!r}, and the database then has the user's name"
        )
    user, password = quote(parts.get("user", ""), safe=""), quote(parts.get("password", ""), safe="")
    account = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host, port = parts.get("host", "localhost"), parts.get("port", "5432")
    query = {name: parts[name] for name in ("sslmode", "sslrootcert", "sslcert", "sslkey") if parts.get(name)}
    if host.startswith("/"):
        query["host"], query["port"], host = host, port, ""
    at = f"{host}:{port}" if host else ""
    return f"postgresql://{account}{at}/{quote(parts.get('dbname', ''), safe='')}" + (
        f"?{urlencode(query)}" if query else ""
    )


def _without_secrets(source: str) -> str:
    """Which database a connection string means, for people."""
    at = urlsplit(_database_url(source))
    host = at.netloc.rpartition("@")[2] or dict(parse_qsl(at.query)).get("host", "")
    return f"database {unquote(at.path[1:]) or at.username} at {host}, user {unquote(at.username or '')}"


# --- keys -------------------------------------------------------------------------------------------------------


def _setting(name: str, read: Callable[[Any], Any]) -> _Take:
    def take(imported: Imported, value: Any) -> str:
        imported.settings[name] = read(value)
        shown = _without_secrets(value) if name == "database_url" else imported.settings[name]
        return f"HOOKWIRE_{name.upper()} = {shown}"

    return take


def _option(name: str, read: Callable[[Any], Any]) -> _Take:
    def take(imported: Imported, value: Any) -> str:
        imported.options[name] = read(value)
        return f"{name} = {imported.options[name]:g}"

    return take


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
    return f"batch_records_max = {limit} (left out, it is 2000)"


def _take_level(imported: Imported, value: Any) -> str:
    levels = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "error": "error"}
    if str(value).lower() not in levels:
        raise ValueError(f"{value!r} is none of {', '.join(levels)}")
    imported.settings["log_level"] = levels[str(value).lower()]
    return f"HOOKWIRE_LOG_LEVEL = {imported.settings['log_level']}"


def _word(*words: str) -> Callable[[Any], str]:
    """One of these words, in any case."""

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


def _take_codec(imported: Imported, value: Any) -> str:
    if value not in ("none", "gzip", "lz4"):
        raise ValueError(f"{value!r} is not available here; none, gzip or lz4")
    imported.kafka["compression"] = value
    return f"Kafka client: compression {value}"


def _take_acks(imported: Imported, value: Any) -> str:
    if str(value) not in ("all", "-1"):
        raise ValueError("fewer acknowledgements than all lose records; here it is always all")
    return "always all here"


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
    "compression.type": _take_codec,
    "compression.codec": _take_codec,
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
        "dataSource": _setting("database_url", lambda value: _database_url(_text(value))),
        "outboxTable": _take_table,
        "name": "logs and the lease name this relay by host and process",
        "limits": {
            "ioErrorBackoff": _option("backoff_seconds_first", lambda value: max(_seconds(value), 0.01)),
            "pollDuration": "nothing is polled from Kafka to lead",
            "minPollInterval": "nothing is polled from Kafka to lead; a lease is renewed every third of its length",
            "maxPollInterval": "the lease bounds how long a relay that hangs is believed",
            "heartbeatTimeout": _take_lease,
            "drainInterval": "no record waits for a busy key: a batch holds a key's records in order",
            "queueTimeout": "no record waits for a busy key: a batch holds a key's records in order",
            "markBackoff": _option("poll_seconds_min", lambda value: max(_seconds(value), 0.001)),
            "maxInFlightRecords": _take_batch,
            "sendConcurrency": "one producer sends to all partitions at once",
            "sendBuffer": "it has no effect in goharvest either (RL-01)",
            "markQueryRecords": _take_batch,
            "minMetricsInterval": _take_meter,
        },
    },
    "logging": {"level": _take_level},
}  # fmt: skip
