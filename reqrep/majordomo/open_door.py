"""Who may come in by the endpoints of ``hookwire broker``: what is refused in production, and what a warning says."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from reqrep.majordomo.program import CurvePlan

__all__ = ["refusal_of", "warning_of"]

_LOCAL_SCHEMES = ("ipc://", "inproc://")
_LOCAL_NAMES = frozenset({"localhost", "lo"})
_RIGHTS = "users.toml beside the keys says what each user may do"


def refusal_of(endpoints: Sequence[str], curve: CurvePlan | None, is_on_database: bool) -> str | None:
    """Return why a broker does not start in production: its keys let each user do all, or strangers reach the hub."""
    remote = _remote(endpoints)
    if curve is None and remote and is_on_database:
        return (
            f"whoever reaches {remote[0]} could publish events, read requests and answer them; with --titanic database "
            "in production, listen on loopback or use --keys and --server-key"
        )
    if curve is not None and curve.rights is None:
        publish = "publish, " if is_on_database else ""
        return f"every user in {curve.key_folder} could {publish}call and serve everything; in production {_RIGHTS}"
    return None


def warning_of(endpoints: Sequence[str], curve: CurvePlan | None, is_on_database: bool) -> str | None:
    """Return what the users of these endpoints could do, or None if nothing has to be said."""
    remote = _remote(endpoints)
    hub = ", publish events to the hub, and get requests that were made over HTTP" if is_on_database else ""
    if curve is None and remote:
        return (
            f"whoever reaches {remote[0]} may call every service, and register as a worker that gets and answers "
            f"requests of others{hub}; --keys and --server-key change that"
        )
    if curve is not None and curve.rights is None:
        return f"every user in {curve.key_folder} may call and serve every service{hub}; {_RIGHTS}"
    return None


def _remote(endpoints: Sequence[str]) -> list[str]:
    return [endpoint for endpoint in endpoints if not _is_local(endpoint)]


def _is_local(endpoint: str) -> bool:
    if endpoint.startswith(_LOCAL_SCHEMES):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        return host in _LOCAL_NAMES or ip_address(host).is_loopback
    except ValueError:
        return False
