"""Writes `docs/reference/settings.md` from the fields of `app.settings.settings.Settings`. A test proves it fresh."""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings.settings import PREFIX, Settings

SETTINGS_FILE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"

_HEAD = """\
# Settings

<!-- Written by scripts/settings_reference.py from app/settings/settings.py, never by hand. -->

A setting is an environment variable, or a line of a TOML file, without the prefix and in lower case. The file is
`hookwire.toml` in the working directory, or the file that `--config` or `HOOKWIRE_CONFIG` names. A variable takes
precedence over the file. An unknown name is refused at the start, with the most similar known name.

```toml
# hookwire.toml
listen = "127.0.0.1:9090"
database_url = "postgresql://hookwire:secret@db/hookwire"
egress_allow_cidrs = "10.1.0.0/16,10.2.0.0/16"
```

Lists are separated by commas. Times are in seconds, sizes in bytes. Passwords and keys appear in no log.
`hookwire config validate` checks the settings without any connection. `hookwire config show` prints them.

Commands that call a running hub read two further variables, which are not settings of the hub: `HOOKWIRE_URL` is its
address, and `HOOKWIRE_TOKEN` an [API key](../how-to/api-keys.md).

"""
_TABLE_HEAD = """
| Variable | Values | Default | Meaning |
|---|---|---|---|
"""
_SECTIONS = {
    "The service": ("profile", "listen", "public_url", "metrics_listen", "access", "hub_access", "bootstrap_",
                    "actor_header",
                    "hosts", "origins", "trusted_proxies",
                    "docs", "drain_seconds", "stop_delay_seconds", "keep_alive_seconds", "log_"),
    "Database and keys": ("data_dir", "database_", "standby_fence", "secret_keys"),
    "Names": ("topics_auto_create", "queues_auto_create", "kinds_auto_create", "services_auto_create", "names_"),
    "Publishing": ("event_bytes_max", "idempotency_seconds", "sql_notify"),
    "Jobs and services": ("temporary_queues_", "dead_task_", "smtp_"),
    "Deliveries": ("delivery_", "retry_", "breaker_", "disable_"),
    "What callbacks may reach": ("egress_",),
    "Kafka": ("kafka_", "neli_"),
    "AMQP": ("amqp_",),
    "Relaying": ("on_refused", "lease_seconds", "direct_deliveries", "fan_out_seconds_max", "relay_headers"),
    "How long things are kept": ("retention_", "dead_letter_", "history_", "gold_"),
    "WebSub": ("websub_",),
    "RabbitHub": ("rabbithub_",),
    "Chat": ("xmpp_",),
    "An outbox in MariaDB or MySQL": ("outbox_",),
    "Pipeline": ("pipeline_",),
    "Tests": ("failpoints",),
}  # fmt: skip
"""The section of a setting on the page, by the beginning of its name: the most needed sections come first."""


def text() -> str:
    """Return the page as it is checked in."""
    rows: dict[str, list[str]] = {title: [] for title in _SECTIONS}
    for name, field in Settings.model_fields.items():
        rows[_section(name)].append(f"{_row(name, field)}\n")
    contents = "".join(f"- [{title}](#{title.lower().replace(' ', '-')})\n" for title in rows)
    return _HEAD + contents + "".join(f"\n## {title}\n{_TABLE_HEAD}{''.join(found)}" for title, found in rows.items())


def _section(name: str) -> str:
    """Return the section of a setting; raise LookupError for a setting without one."""
    for title, beginnings in _SECTIONS.items():
        if name.startswith(beginnings):
            return title
    raise LookupError(f"no section of _SECTIONS has the setting {name}")


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{PREFIX}{name.upper()}`", _values(name, field), _default(name, field), field.description or "")
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(cell: str) -> str:
    for character in "|<*":
        cell = cell.replace(character, f"\\{character}")
    return cell


def _values(name: str, field: FieldInfo) -> str:
    kind = _plain(field.annotation)
    if kind is Path:
        return "folder" if name.endswith("_dir") else "file"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "texts" if get_args(kind)[0] is str else "numbers"
    if get_origin(kind) is dict:
        return "a JSON object of texts"
    words = {bool: "`true`, `false`", int: "integer", float: "number", str: "text", SecretStr: "secret"}
    return words[kind] + "".join(_bounds(field.metadata))


def _plain(kind: Any) -> Any:
    """Return the type without `| None`."""
    if get_origin(kind) in (Union, UnionType):
        return next(part for part in get_args(kind) if part is not NoneType)
    return kind


def _bounds(metadata: Iterable[object]) -> Iterable[str]:
    for bound in metadata:
        for name, words in (("ge", "at least"), ("le", "at most")):
            if hasattr(bound, name):
                yield f", {words} {getattr(bound, name):,}"


def _default(name: str, field: FieldInfo) -> str:
    if name == "data_dir":  # depends on the machine
        return "the user's state folder; `.hookwire/` with `make run`"
    value = field.default
    if value is None or value in ("", (), {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{','.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"


if __name__ == "__main__":
    SETTINGS_FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {SETTINGS_FILE.name}")
    sys.exit(0)
