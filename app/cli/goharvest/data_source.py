"""Connection strings of Go's driver ``lib/pq`` and so of goharvest: ``host=db user=shop dbname=shop``."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

__all__ = ["described", "postgres_url", "warning_of"]

_KNOWN = (
    "connect_timeout", "dbname", "host", "password", "port", "sslcert", "sslkey", "sslmode", "sslrootcert", "user",
)  # fmt: skip
_PART = re.compile(r"(?<![a-z_])([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']*)")


def postgres_url(source: str) -> str:
    """Return a PostgreSQL URL for a connection string of lib/pq, or an existing URL; raise ValueError."""
    if source.startswith(("postgres://", "postgresql://")):
        return source
    parts = _parts(source)
    user, password = quote(parts.get("user", ""), safe=""), quote(parts.get("password", ""), safe="")
    account = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host, port = parts.get("host", "localhost"), parts.get("port", "5432")
    query = {name: parts[name] for name in ("sslmode", "sslrootcert", "sslcert", "sslkey") if parts.get(name)}
    if host.startswith("/"):
        query["host"], query["port"], at = host, port, ""
    else:
        at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    asked = f"?{urlencode(query)}" if query else ""
    return f"postgresql://{account}{at}/{quote(parts.get('dbname', ''), safe='')}{asked}"


def _parts(source: str) -> dict[str, str]:
    parts = {name: re.sub(r"\\(.)", r"\1", _unquoted(value)) for name, value in _PART.findall(source)}
    if not parts or _PART.sub("", source).strip():
        raise ValueError("not a connection string such as host=localhost port=5432 user=app dbname=shop")
    if strange := parts.keys() - set(_KNOWN):
        raise ValueError(f"{', '.join(sorted(strange))}: no such parameter here; {', '.join(_KNOWN)}")
    return parts


def warning_of(source: str) -> str:
    """Return a warning about a valid text that is probably a mistake, or "" (FM-09)."""
    if source.startswith(("postgres://", "postgresql://")):
        return ""
    swallowed = _parts(source).get("password", "")
    if swallowed.partition("=")[0] not in _KNOWN:
        return ""
    return (
        f"the text after password= counts as the password, as in goharvest's driver, here {swallowed!r}; write"
        " password='' for an empty password"
    )


def _unquoted(value: str) -> str:
    return value[1:-1] if value.startswith("'") and len(value) > 1 else value


def described(source: str) -> str:
    """Return a description of the database that a connection string names, for messages."""
    at = urlsplit(postgres_url(source))
    host = at.netloc.rpartition("@")[2] or dict(parse_qsl(at.query)).get("host", "")
    return f"database {unquote(at.path[1:]) or at.username} at {host}, user {unquote(at.username or '')}"
