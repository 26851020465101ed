"""The error numbers of MariaDB and MySQL that another try may heal.

The numbers: https://mariadb.com/kb/en/mariadb-error-codes/
"""

from __future__ import annotations

from typing import Final

__all__ = ["may_pass", "takes_no_writes"]

_DRIVERS: Final = ("pymysql", "asyncmy", "mysql", "mariadb")
_LOST: Final = {
    0,
    1053,
    1077,
    1079,
    1080,
    1152,
    1158,
    1159,
    1160,
    1161,
    1184,
    1927,
    2002,
    2003,
    2005,
    2006,
    2013,
    2014,
    2055,
}
_BUSY: Final = {1020, 1040, 1203, 1205, 1213, 1317, 1969, 3024, 3572}
_READ_ONLY: Final = {1290, 1836}


def may_pass(error: Exception) -> bool:
    """Return whether the connection, the server or a lock failed. Number 0 is a driver's own: not connected."""
    return _number_of(error) in _LOST | _BUSY | _READ_ONLY


def takes_no_writes(error: Exception) -> bool:
    """Return whether the server has become read-only."""
    return _number_of(error) in _READ_ONLY


def _number_of(error: Exception) -> int | None:
    """Return the number of an exception of a driver, which is its first argument or has the name ``errno``."""
    if type(error).__module__.partition(".")[0] not in _DRIVERS:
        return None
    number = getattr(error, "errno", None) or (error.args[0] if error.args else None)
    return number if isinstance(number, int) else None
